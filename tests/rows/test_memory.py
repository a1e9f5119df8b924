"""Memory beyond the input is a few blocks and d x d matrices; blocks on a GPU follow the memory that is free.

Threads over blocks change no number, start no others, end with their errors, and leave BLAS as it was.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import array_api_strict
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import fisherleak as fl
from fisherleak.rows import block_elements, map_rows, memory, sum_rows

SCRIPT = """
import resource, sys
from pathlib import Path
import numpy as np
import fisherleak as fl

n, d, loss = 1_000_000, 100, sys.argv[1]
rng = np.random.default_rng(0)
X = np.empty((n, d))
for start in range(0, n, 10_000):
    rng.standard_normal(out=X[start : start + 10_000])
y = (X[:, 0] + rng.standard_normal(n) > 0) * 1.0
leak = fl.measure(fl.minimise(X, y, loss, l2=1e-3), X, y)
assert leak.per_example().shape == (n,)
assert leak.dataset() > 0 and leak.per_attribute().shape == (d,)
unit = 1 if sys.platform == "darwin" else 1024
status = Path("/proc/self/status")  # its own peak; that of getrusage begins with the size of the process that started it
told = status.read_text().split("VmHWM:")[1].split()[0] if status.exists() else None
print((int(told) if told else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit / X.nbytes)
"""


@pytest.mark.long
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_million_rows_peak_below_one_and_a_half_times_the_data(loss: str) -> None:
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", SCRIPT, loss], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.5


@pytest.mark.parametrize(
    ("free", "values"),
    [(None, 2**26), (0, 2**18), (2**30, 2**22), (24 * 10**9, 2**26), (130 * 2**30, 2**29), (10**15, 2**29)],
)
def test_blocks_on_a_gpu_follow_its_free_memory(free: int | None, values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "on_accelerator", lambda x: True)
    monkeypatch.setattr(memory, "free_on_device", lambda x: free)
    assert block_elements(np.empty(0)) == values
    assert free is None or values == 2**18 or values * memory.BYTES <= free


def test_blocks_elsewhere_do_not() -> None:
    assert block_elements(np.empty(0)) == memory.BLOCK_ELEMENTS


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "BLOCK_ELEMENTS", 2**12)
    monkeypatch.setattr(memory, "SMALLEST_BLOCK", 16)


@pytest.fixture
def so_many(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> Any:
    """A function that sets the number of threads."""

    def set_to(count: int) -> None:
        monkeypatch.setattr(memory, "threads_for", lambda blocks, values: 1 if memory.in_task() else count)

    set_to(2)
    return set_to


def _blas_threads() -> list[int]:
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


def _problem(n: int = 2000, d: int = 12) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


@pytest.mark.long
def test_no_bit_depends_on_the_number_of_threads(so_many: Any) -> None:
    X, y = _problem()
    found = []
    for count in (1, 2, 5):
        so_many(count)
        with threadpool_limits(1):
            plain = fl.measure(fl.minimise(X, y, l2=1e-2), X, y)
            other = fl.measure(fl.minimise(X, y, "pseudo_huber", l2=1e-2), X, y)
            both = fl.compose(plain, other)
            found.append([*plain.per_example(), *both.per_example(), plain.dataset(), *plain.per_attribute()])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_results_come_in_the_order_of_the_blocks(so_many: Any) -> None:
    x = np.arange(5000.0)
    so_many(3)
    turn = threading.Event()

    def block(x: Any) -> Any:
        if x[0] == 0:
            turn.wait(5)  # the first block ends after the second has begun
        else:
            turn.set()
        return 2 * x

    doubled = map_rows(block, x, most=500)
    np.testing.assert_array_equal(doubled, 2 * x)
    (joined,) = sum_rows(lambda x: ([float(x[0])],), x, most=500, join=lambda a, b: (a[0] + b[0],))
    assert joined == sorted(joined)
    assert len(joined) > 8


def test_an_error_in_a_block_is_raised_and_later_blocks_are_not_begun(so_many: Any) -> None:
    begun: list[float] = []

    def block(x: Any) -> Any:
        begun.append(x[0])
        if x[0] == 0:
            raise ValueError("the first block")
        return x

    with pytest.raises(ValueError, match="the first block"):
        map_rows(block, np.arange(10_000.0), most=100)
    assert len(begun) <= 4
    assert memory._BLAS.users == 0


def test_blocks_within_blocks_start_no_threads_and_end(so_many: Any) -> None:
    def inner(x: Any) -> Any:
        assert memory.in_task()
        return map_rows(lambda part: part + threading.get_ident() * 0.0 + 1.0, x, most=10)

    x = np.arange(4000.0)
    np.testing.assert_array_equal(map_rows(inner, x, most=500), x + 1.0)
    assert not memory.in_task()


def test_blas_has_one_thread_meanwhile_and_as_many_as_before_afterwards(so_many: Any) -> None:
    with threadpool_limits(2):
        before = _blas_threads()
        inside: list[int] = []

        def block(x: Any) -> Any:
            inside.extend(_blas_threads())
            return x

        map_rows(block, np.arange(1000.0), most=250)
        assert set(inside) == {1}
        assert _blas_threads() == before


def test_two_callers_at_a_time_leave_blas_as_it_was(so_many: Any) -> None:
    with threadpool_limits(2):
        before = _blas_threads()
        meet = threading.Barrier(2, timeout=20)
        first = threading.Event()

        def late(x: Any) -> Any:
            if x[0] == 0:
                meet.wait()
                first.wait(20)
            return x

        def early(x: Any) -> Any:
            if x[0] == 0:
                meet.wait()
            return x

        other = threading.Thread(target=map_rows, args=(late, np.arange(1000.0)), kwargs={"most": 250})

        def at_the_same_time(x: Any) -> Any:
            if (
                x[0] == 0
            ):  # who came first leaves first: the other one cannot lift its limit where threads have their own
                other.start()
            return early(x)

        map_rows(at_the_same_time, np.arange(1000.0), most=250)
        first.set()
        other.join(20)
        assert not other.is_alive()
        assert _blas_threads() == before


@pytest.mark.parametrize("kind", ["strict", "objects"])
def test_only_numbers_of_numpy_are_walked_in_threads(so_many: Any, kind: str) -> None:
    seen: set[int] = set()
    x: Any = array_api_strict.arange(1000.0) if kind == "strict" else np.arange(1000).astype(object)

    def block(x: Any) -> Any:
        seen.add(threading.get_ident())
        return x

    map_rows(block, x, most=100)
    assert seen == {threading.get_ident()}


def test_what_the_caller_set_for_errors_holds_in_the_blocks(so_many: Any) -> None:
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        map_rows(lambda x: 1.0 / x, np.zeros(1000), most=100)


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)
def test_an_interrupt_ends_the_walk(so_many: Any) -> None:
    begun: list[float] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def block(x: Any) -> Any:
        begun.append(x[0])
        if len(begun) == 3:
            signal.raise_signal(signal.SIGINT)
        return x

    try:
        with pytest.raises(KeyboardInterrupt):
            map_rows(block, np.arange(1_000_000.0), most=10)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(begun) < 100_000
    assert memory._BLAS.users == 0


def test_as_many_threads_as_cores_blas_and_memory_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_cores", lambda: 6)
    with threadpool_limits(1):
        assert memory.threads_for(10, 1000) == 1
    monkeypatch.setattr(memory._BLAS, "threads", lambda: 4)
    assert memory.threads_for(10, 1000) == 4
    assert memory.threads_for(3, 1000) == 3
    assert memory.threads_for(10, memory.IN_FLIGHT // 2) == 2
    assert memory.threads_for(10, memory.IN_FLIGHT) == 1
    with memory.alone():
        assert memory.threads_for(10, 1000) == 1
