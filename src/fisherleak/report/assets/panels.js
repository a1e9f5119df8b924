// What all charts share: colours from the style sheet, tooltips as plain text, axes.
const DATA = JSON.parse(document.getElementById("charts").textContent);
const LONGEST_NAME = 60;

function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: read("ink"), muted: read("muted"), rule: read("rule"), paper: read("paper"), surface: read("surface"),
    accent: read("accent"), soft: read("accent-soft"), font: getComputedStyle(document.body).fontFamily,
    heat: [1, 2, 3, 4].map((step) => read(`heat-${step}`)),
  };
}

// A zero-width space keeps braces from being read as the chart library's own markup.
function plain(text) {
  const short = text.length > LONGEST_NAME ? `${text.slice(0, LONGEST_NAME - 1)}…` : text;
  return short.replaceAll("{", "{\u200b");
}

function base(colours, description, formatter) {
  return {
    animation: false,
    textStyle: { color: colours.ink, fontFamily: colours.font },
    aria: { enabled: true, label: { description } },
    tooltip: {
      renderMode: "richText",
      confine: true,
      backgroundColor: colours.paper,
      borderColor: colours.rule,
      borderWidth: 1,
      padding: [8, 12],
      textStyle: { color: colours.ink, fontFamily: colours.font, fontSize: 13, lineHeight: 19 },
      formatter,
    },
  };
}

function axis(colours, extra) {
  const { axisLabel, ...rest } = extra;
  return {
    axisLine: { show: true, lineStyle: { color: colours.rule } },
    axisTick: { show: false },
    splitLine: { show: false },
    nameTextStyle: { color: colours.muted, fontSize: 13 },
    axisLabel: { color: colours.muted, fontSize: 12, hideOverlap: true, formatter: (value) => number(value), ...axisLabel },
    ...rest,
  };
}

// Bins of a constant ratio are drawn on a logarithmic axis.
function isLogarithmic(edges) {
  const last = edges.length - 1;
  return edges[0] > 0 && edges[last] - edges[last - 1] > 1.5 * (edges[1] - edges[0]);
}

// One histogram above the other on the same axes, so that groups compare without colours.
// More than four are lower, and all on paper, so that eight fit on a page.
function panelOf(data, paper) {
  return paper || data.groups.length > 4 ? { height: 46, head: 38, foot: 56 } : { height: 74, head: 46, foot: 56 };
}

function histogramHeight(data, paper) {
  const panel = panelOf(data, paper);
  return data.groups.length * (panel.height + panel.head) + panel.foot;
}

function histogramPanel(colours, data, group, k, highest, paper) {
  const type = isLogarithmic(data.edges) ? "log" : "value";
  const last = k === data.groups.length - 1;
  const { height, head } = panelOf(data, paper);
  const top = k * (height + head) + head;
  const ends = { min: data.edges[0], max: data.edges[data.edges.length - 1] };
  return {
    grid: { left: 52, right: 20, top, height },
    title: {
      text: `${plain(group.name)}: ${number(group.count, 9)} ${DATA.who.many}, mean η ${number(group.mean)}`,
      left: 52, top: top - 27, padding: 0,
      textStyle: { color: colours.ink, fontSize: 13, fontWeight: 600 },
    },
    xAxis: axis(colours, {
      type, gridIndex: k, ...ends, name: last ? `η of a ${DATA.who.one}` : "", nameLocation: "middle", nameGap: 32,
      axisLabel: { show: last, showMinLabel: false, showMaxLabel: false },
    }),
    yAxis: axis(colours, {
      type: "value", gridIndex: k, min: 0, max: highest, interval: highest / 2,
      axisLine: { show: false }, splitLine: { show: true, lineStyle: { color: colours.rule } },
      axisLabel: { formatter: (share) => `${number(100 * share, 2)} %` },
    }),
    bars: histogramBars(colours, data, group, k),
    mean: meanLine(colours, group, k, highest),
  };
}

function histogramBars(colours, data, group, k) {
  const rows = group.counts.map((count, j) => [data.edges[j], data.edges[j + 1], count / Math.max(1, group.count), count]);
  return {
    type: "custom", xAxisIndex: k, yAxisIndex: k, name: plain(group.name), data: rows, clip: true,
    encode: { x: [0, 1], y: 2 },
    renderItem: (params, api) => {
      const [left, top] = api.coord([api.value(0), api.value(2)]);
      const [right, bottom] = api.coord([api.value(1), 0]);
      const shape = { x: left, y: top, width: Math.max(1, right - left - 1), height: bottom - top };
      return { type: "rect", shape, style: { fill: colours.accent, opacity: 0.75 }, emphasis: { style: { opacity: 1 } } };
    },
  };
}

function meanLine(colours, group, k, highest) {
  return {
    type: "custom", xAxisIndex: k, yAxisIndex: k, silent: true, data: [[group.mean, highest]], tooltip: { show: false },
    renderItem: (params, api) => {
      const [x, y1] = api.coord([api.value(0), api.value(1)]);
      const [, y2] = api.coord([api.value(0), 0]);
      const style = { stroke: colours.ink, lineWidth: 1.5, lineDash: [5, 4] };
      return { type: "line", shape: { x1: x, y1, x2: x, y2 }, style };
    },
  };
}

function histogram(colours, data, description, paper) {
  const shares = data.groups.map((g) => Math.max(0, ...g.counts) / Math.max(1, g.count));
  const rounded = (share) => (share > 0 ? Math.ceil(share * 20) / 20 : 1);
  const highest = (k) => rounded(data.own_heights ? shares[k] : Math.max(...shares));
  const panels = data.groups.map((group, k) => histogramPanel(colours, data, group, k, highest(k), paper));
  const tip = ({ value, seriesName }) =>
    `${seriesName}\nη from ${number(value[0])} to ${number(value[1])}\n${number(value[3], 9)} ${DATA.who.many} (${percent(value[2])})`;
  return {
    ...base(colours, description, tip),
    grid: panels.map((p) => p.grid),
    title: panels.map((p) => p.title),
    xAxis: panels.map((p) => p.xAxis),
    yAxis: panels.map((p) => p.yAxis),
    series: panels.flatMap((p) => [p.bars, p.mean]),
  };
}
