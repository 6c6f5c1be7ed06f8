"""Work over processes and threads: the same results as one worker, sooner.

Belongs here: pools, their failures, read-ahead. Must not be here: what the work is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def over_processes(
    tasks: Sequence[T],
    work: Callable[[T], R],
    workers: int,
    prepare: Callable[..., None],
    *given: Any,
) -> Iterator[tuple[int, R]]:
    """Yield (number of the task, result), tasks started in their order, results as they come.

    `prepare(*given)` runs once in every process. A pool that breaks (no memory, no way to start processes) is no error:
    what is left is done here.
    """
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    left = set(range(len(tasks)))
    try:
        with _pool(min(workers, len(tasks)), prepare, given) as pool:
            futures = {pool.submit(work, task): n for n, task in enumerate(tasks)}
            for future in as_completed(futures):
                result = future.result()
                left.discard(futures[future])
                yield futures[future], result
    except (BrokenProcessPool, OSError, EOFError):
        prepare(*given)
        for n in sorted(left):
            yield n, work(tasks[n])


def in_order(
    tasks: Sequence[T],
    work: Callable[[T], R],
    workers: int,
    prepare: Callable[..., None],
    *given: Any,
) -> Iterator[R]:
    """Yield the results in the order of the tasks, a few tasks ahead of the reader."""
    from collections import deque
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    done = 0
    try:
        with _pool(min(workers, len(tasks)), prepare, given) as pool:
            waiting: deque[Future[R]] = deque()
            ahead = iter(tasks)
            for task in ahead:
                waiting.append(pool.submit(work, task))
                if len(waiting) < 2 * workers:
                    continue
                result = waiting.popleft().result()
                done += 1
                yield result
            while waiting:
                result = waiting.popleft().result()
                done += 1
                yield result
    except (BrokenProcessPool, OSError, EOFError):
        prepare(*given)
        for task in tasks[done:]:
            yield work(task)


def _pool(workers: int, prepare: Callable[..., None], given: tuple[Any, ...]) -> Any:
    import threading
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_all_start_methods, get_context

    methods = get_all_start_methods()
    # A fork costs 2 ms and shares what is compiled; with threads about it may copy a held lock.
    forks = (
        "fork" in methods
        and os.name == "posix"
        and os.uname().sysname == "Linux"
        and threading.active_count() == 1
    )
    method = "fork" if forks else "spawn"
    return ProcessPoolExecutor(workers, get_context(method), initializer=prepare, initargs=given)


def read_ahead(chunks: Iterable[bytes], depth: int = 3) -> Iterator[bytes]:
    """Yield the chunks, made in a thread of their own: decompression releases the interpreter's lock."""
    import queue
    import threading

    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(depth)
    stop = threading.Event()

    def hand(item: bytes | BaseException | None) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def make() -> None:
        try:
            for chunk in chunks:
                if stop.is_set():
                    return
                hand(chunk)
            hand(None)
        except BaseException as error:
            hand(error)

    thread = threading.Thread(target=make, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
