// The other charts: each takes colours, its data and a description, and returns the library's option.
const FLOOR = 1e-3; // exposures below this part of the largest share the lightest shade
const NAME_ROOM = 18;

// Names of columns stand aslant, NAME_ROOM pixels apart or more: on narrow maps of many columns every second or third is there.
function heatMap(colours, data, description, width, narrow) {
  const step = Math.max(1, Math.ceil((NAME_ROOM * data.columns.length) / Math.max(1, width - 104)));
  const largest = Math.max(0, ...data.exposure.flat());
  const shade = (value) => (largest > 0 ? Math.log10(Math.max(value / largest, FLOOR)) : 0);
  const cells = data.exposure.flatMap((line, y) => line.map((value, x) => [x, y, value === null ? "-" : shade(value)]));
  const least = Math.min(0, ...cells.map((cell) => cell[2]).filter((value) => value !== "-")); // a missing cell has no shade
  const tip = ({ value: [x, y] }) => {
    const eta = data.eta[y][x];
    if (eta === null) return `${DATA.who.one} ${plain(data.rows[y])}\n${plain(data.columns[x])}\nmissing: no η`;
    const error = eta > 0 ? `± ${number(1 / eta)}${data.categories[x] ? " (encoded values)" : ""}` : "no limit";
    return `${DATA.who.one} ${plain(data.rows[y])}\n${plain(data.columns[x])}\nη ${number(eta)}, least error ${error}\nexposure ${number(data.exposure[y][x])}`;
  };
  const names = (values, width) => ({ color: colours.muted, fontSize: 12, width, overflow: "truncate", interval: 0, formatter: (i) => plain(values[i]) });
  const band = (values) => ({ type: "category", data: values.map((_, i) => i), axisTick: { show: false }, axisLine: { show: false }, splitArea: { show: false } });
  return {
    ...base(colours, description, tip),
    grid: { left: 92, right: 12, top: 110, bottom: 56 },
    xAxis: { ...band(data.columns), position: "top", axisLabel: { ...names(data.columns, 110), rotate: 50, interval: (i) => i % step === 0, hideOverlap: true } },
    yAxis: { ...band(data.rows), inverse: true, axisLabel: names(data.rows, 80) },
    visualMap: {
      min: Math.min(least, -0.01), max: 0, orient: "horizontal", left: narrow ? 8 : 92, bottom: 8, itemWidth: 12, itemHeight: narrow ? 100 : 160,
      text: [`exposure ${number(largest)}`, number(largest * 10 ** least)],
      textStyle: { color: colours.muted, fontSize: 12 }, inRange: { color: colours.heat }, hoverLink: false,
    },
    series: [{
      type: "heatmap", data: cells,
      itemStyle: { borderColor: colours.paper, borderWidth: 1 },
      emphasis: { itemStyle: { borderColor: colours.ink, borderWidth: 2 } },
    }],
  };
}

// A dot, a whisker and a tick for each entry, one below the other.
function ranges(colours, items, description, { name, narrow, paper = false, log = false, reference = null, share = false, words }) {
  const write = share ? percent : number;
  const ends = items.flatMap((i) => [i.low, i.high, i.mark]).concat(reference).filter((x) => x !== null && (!log || x > 0));
  const least = Math.min(...ends), most = Math.max(...ends);
  const limits = log ? { min: least / 1.3, max: most * 1.3 } : share ? { min: Math.min(0, least), max: Math.max(1, most) } : { min: 0, max: 1.05 * most };
  const tip = ({ dataIndex }) => {
    const item = items[dataIndex];
    return `${plain(item.name)}\n${item.note || `${words.value} ${write(item.value)}, ${write(item.low)} to ${write(item.high)}\n${words.mark} ${write(item.mark)}`}`;
  };
  const called = (item) => plain(paper ? item.name.replace("\n", ": ") : item.name);
  const longest = Math.max(...items.flatMap((item) => called(item).split("\n").map((part) => part.length)));
  const room = Math.min(narrow ? 128 : paper ? 300 : 240, 28 + 7 * longest);
  return {
    ...base(colours, description, tip),
    grid: { left: room, right: 24, top: 14, bottom: 56 },
    xAxis: axis(colours, {
      type: log ? "log" : "value", ...limits, name, nameLocation: "middle", nameGap: 32,
      splitLine: { show: true, showMinLine: false, showMaxLine: false, lineStyle: { color: colours.rule } },
      axisLabel: { formatter: share ? (x) => `${Math.round(100 * x)} %` : (x) => number(x), showMinLabel: !log, showMaxLabel: share },
    }),
    yAxis: axis(colours, {
      type: "category", inverse: true, data: items.map((_, i) => i),
      axisLabel: { interval: 0, width: room - 14, overflow: "break", lineHeight: 14, color: colours.ink, formatter: (i) => called(items[i]) },
    }),
    series: [{
      type: "custom", data: items.map((item, i) => [item.value, i, item.low, item.high, item.mark]),
      encode: { x: [0, 2, 3], y: 1 },
      renderItem: (params, api) => whisker(colours, api, reference, params),
    }],
  };
}

function whisker(colours, api, reference, params) {
  const [x, y] = api.coord([api.value(0), api.value(1)]);
  const at = (k) => api.coord([api.value(k), api.value(1)])[0];
  const line = (x1, y1, x2, y2, style) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { lineWidth: 2, ...style } });
  const children = [
    { type: "rect", shape: { x: params.coordSys.x, y: y - 11, width: params.coordSys.width, height: 22 }, style: { fill: "transparent" } },
    line(at(2), y, at(3), y, { stroke: colours.accent, lineWidth: 3, opacity: 0.55, lineCap: "round" }),
    { type: "circle", shape: { cx: x, cy: y, r: 5 }, style: { fill: colours.accent } },
  ];
  if (Number.isFinite(api.value(4))) children.push(line(at(4), y - 8, at(4), y + 8, { stroke: colours.ink }));
  if (reference !== null) {
    const [middle] = api.coord([reference, api.value(1)]);
    const half = api.size([0, 1])[1] / 2;
    children.push(line(middle, y - half, middle, y + half, { stroke: colours.ink, lineDash: [5, 4], lineWidth: 1.5 }));
  }
  return { type: "group", children };
}

function utilityLimits({ points, without_noise: best, baseline }) {
  const span = Math.abs(best - baseline);
  if (span === 0) return {};
  const low = Math.min(best, baseline), high = Math.max(best, baseline);
  const near = (x) => Math.min(Math.max(x, low - 0.4 * span), high + 0.4 * span);
  const values = points.flatMap((p) => [near(p.low), near(p.high)]).concat(low, high);
  return { min: Math.min(...values) - 0.1 * span, max: Math.max(...values) + 0.15 * span };
}

function utilityBand(colours, points) {
  return {
    type: "custom", silent: true, clip: true, data: [points.map((p) => p.scale)], z: 1, tooltip: { show: false },
    renderItem: (params, api) => {
      if (params.dataIndex > 0) return null;
      const edge = (key) => points.map((p) => api.coord([p.scale, p[key]]));
      return { type: "polygon", shape: { points: [...edge("low"), ...edge("high").reverse()] }, style: { fill: colours.accent, opacity: 0.16 } };
    },
  };
}

function level(colours, text, at, position) {
  return { ...at, lineStyle: { color: colours.muted, type: [2, 4], width: 1.5 }, label: { formatter: () => text, position, color: colours.muted, fontSize: 12 } };
}

// Where there is little room beside the title of the lower panel, its legend stands below it, one line for each attack.
function legendRoom(data, narrow) {
  const attacks = data.points[0].attacks.length;
  return narrow && attacks > 1 ? 19 * attacks : 0;
}

function tradeoff(colours, data, description, sigma, paper, narrow) {
  const room = legendRoom(data, narrow);
  const tall = paper ? 105 : 160, low = paper ? 60 : 84;
  const write = data.metric === "accuracy" ? percent : number;
  const attacked = data.points[0].attacks.map((a) => a.attribute);
  const ends = { min: Math.min(data.points[0].scale, sigma.low), max: Math.max(data.points[data.points.length - 1].scale, sigma.high) };
  const vertical = (text, x, style) => ({ xAxis: x, lineStyle: { color: colours.ink, width: 1.5, ...style }, label: { formatter: () => text, color: colours.ink, fontSize: 12 } });
  const lines = [vertical("chosen σ", sigma.chosen, { type: "solid" })];
  if (sigma.current !== sigma.chosen) lines.push(vertical("slider", sigma.current, { type: "dashed", color: colours.accent }));
  const tip = (series) => [`σ ${number(series[0].value[0])}`, ...series.filter((s) => s.seriesType === "line").map((s) => `${s.seriesName}: ${s.seriesName === "utility" ? write(s.value[1]) : percent(s.value[1])}`)].join("\n");
  const two = attacked.length > 0;
  const x = (k, named) => axis(colours, {
    type: "log", gridIndex: k, ...ends, name: named ? "scale of the noise σ (logarithmic)" : "", nameLocation: "middle", nameGap: 32,
    axisLabel: { show: named, showMinLabel: false, showMaxLabel: false },
  });
  const y = (k, name, format, limits) => axis(colours, {
    type: "value", gridIndex: k, name, nameLocation: "end", nameGap: k ? 30 + room : 30, nameTextStyle: { color: colours.muted, fontSize: 13, align: "left", padding: [0, 0, 0, -40] }, ...limits,
    splitLine: { show: true, lineStyle: { color: colours.rule } }, axisLabel: { formatter: format, showMinLabel: false, showMaxLabel: false },
  });
  const marks = (k, more) => ({ silent: true, symbol: "none", data: [...lines.map((l) => (k ? { ...l, label: { show: false } } : l)), ...more] });
  const levels = [level(colours, "without noise", { yAxis: data.without_noise }, "insideEndTop"), level(colours, "baseline", { yAxis: data.baseline }, "insideStartBottom")];
  const series = [utilityBand(colours, data.points), {
    type: "line", name: "utility", z: 3, data: data.points.map((p) => [p.scale, p.utility]), symbolSize: 7,
    lineStyle: { color: colours.accent, width: 2.5 }, itemStyle: { color: colours.accent }, markLine: marks(0, levels),
  }];
  attacked.forEach((name, j) => series.push({
    type: "line", name: `attack on ${plain(name)}`, xAxisIndex: 1, yAxisIndex: 1, symbolSize: 6, symbol: ["circle", "diamond", "triangle", "rect"][j % 4],
    data: data.points.map((p) => [p.scale, p.attacks[j].accuracy]), lineStyle: { color: colours.accent, width: 2, type: ["solid", "dashed", "dotted"][j % 3] },
    itemStyle: { color: colours.accent }, markLine: j === 0 ? marks(1, []) : undefined,
  }));
  const shared = base(colours, description, tip);
  return {
    ...shared,
    tooltip: { ...shared.tooltip, trigger: "axis" },
    axisPointer: { link: [{ xAxisIndex: "all" }], lineStyle: { color: colours.muted, type: "dotted" } },
    legend: { show: attacked.length > 1, data: attacked.map((name) => `attack on ${plain(name)}`), ...(room ? { left: 10, orient: "vertical", itemGap: 4, top: 104 + tall } : { right: 24, top: 84 + tall }), textStyle: { color: colours.muted, fontSize: 12 } },
    grid: [{ left: 56, right: 24, top: 62, height: tall }, ...(two ? [{ left: 56, right: 24, top: 118 + tall + room, height: low }] : [])],
    xAxis: two ? [x(0, false), x(1, true)] : [x(0, true)],
    yAxis: [y(0, plain(data.short), data.metric === "accuracy" ? (v) => `${Math.round(100 * v)} %` : (v) => number(v), utilityLimits(data)),
      ...(two ? [y(1, "expected attack accuracy", (v) => `${Math.round(100 * v)} %`, { min: 0, max: 1.05 })] : [])],
    series,
  };
}
