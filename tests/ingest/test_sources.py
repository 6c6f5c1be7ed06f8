"""Paths become sources and gaps; an error is raised only when nothing is left to read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import socket
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rootrank.errors import InputError, MissingExtraError
from rootrank.ingest.sources import Limits, Source, natural_key, open_sources
from rootrank.model import Gap

LOG = b"[rank3]: RuntimeError: boom\n"

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX file types")


def fill(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def text(source: Source) -> bytes:
    return b"".join(source.blocks())


def names(sources: list[Source]) -> list[str]:
    return [s.name for s in sources]


class TestFinding:
    """Which files are found, and what they are called."""

    def test_a_folder(self, tmp_path: Path) -> None:
        """Every file below a folder, by natural order, named relative to the folder."""
        files = {f"rank{i}.log": LOG for i in (10, 2, 1)} | {"attempt_0/3/stderr.log": LOG}
        sources, gaps = open_sources([str(fill(tmp_path, files))])
        assert ["attempt_0/3/stderr.log", "rank1.log", "rank2.log", "rank10.log"] == names(sources)
        assert [] == gaps
        assert (0, 3) == (sources[0].origin.attempt, sources[0].origin.local_rank)
        assert 10 == sources[3].origin.rank
        assert len(LOG) == sources[3].size_bytes
        assert LOG == text(sources[3])
        assert LOG == text(sources[3])  # again

    def test_the_folder_itself_may_name_the_host(self, tmp_path: Path) -> None:
        """A host's folder that is given directly still says the host."""
        fill(tmp_path, {"node-7/rank3.log": LOG})
        sources, _ = open_sources([str(tmp_path / "node-7")])
        assert ("rank3.log", "node-7") == (sources[0].name, sources[0].origin.host)

    def test_files_keep_the_name_that_was_given(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file given as such is called what the user called it, and its folders still count."""
        fill(tmp_path, {"run/attempt_1/5/stderr.log": LOG})
        monkeypatch.chdir(tmp_path)
        (source,), _ = open_sources(["run/attempt_1/5/stderr.log"])
        assert "run/attempt_1/5/stderr.log" == source.name
        assert (1, 5) == (source.origin.attempt, source.origin.local_rank)

    def test_patterns(self, tmp_path: Path) -> None:
        """A pattern gives its matches, folders included; one without match is an error."""
        fill(tmp_path, {"rank1.log": LOG, "rank2.log": LOG, "x/deep/rank3.log": LOG, "a.txt": LOG})
        sources, _ = open_sources([str(tmp_path / "rank*.log")])
        assert [1, 2] == [s.origin.rank for s in sources]
        assert 4 == len(open_sources([str(tmp_path / "**" / "*")])[0])
        with pytest.raises(InputError, match="no file matches"):
            open_sources([str(tmp_path / "*.err")])

    def test_a_name_that_looks_like_a_pattern(self, tmp_path: Path) -> None:
        """An existing file wins over the pattern that its name spells."""
        fill(tmp_path, {"log[1].txt": LOG, "log1.txt": LOG})
        sources, _ = open_sources([str(tmp_path / "log[1].txt")])
        assert 1 == len(sources)
        assert sources[0].name.endswith("log[1].txt")

    @posix
    def test_each_file_once(self, tmp_path: Path) -> None:
        """The same file by several paths, patterns and links is one source, by its own name."""
        fill(tmp_path, {"rank3.log": LOG})
        (tmp_path / "latest.log").symlink_to("rank3.log")
        everything = [str(tmp_path), str(tmp_path / "rank3.log"), str(tmp_path / "*.log")]
        for paths in (everything, everything[:1], everything[:1] * 2):
            sources, _ = open_sources(paths)
            assert 1 == len(sources)
            assert "latest" not in sources[0].name

    @posix
    def test_link_loops_end(self, tmp_path: Path) -> None:
        """Links to a parent, to each other, to themselves and to nothing do no harm."""
        fill(tmp_path, {"z/rank3.log": LOG})
        (tmp_path / "z" / "up").symlink_to(tmp_path)
        (tmp_path / "a").symlink_to(tmp_path / "z")
        (tmp_path / "self").symlink_to(tmp_path / "self")
        (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
        sources, gaps = open_sources([str(tmp_path)])
        assert ["z/rank3.log"] == names(sources)
        assert {("gone", "broken link"), ("self", "broken link")} == {
            (g.source, g.reason) for g in gaps
        }

    def test_hidden_files(self, tmp_path: Path) -> None:
        """Hidden files and folders are passed over, but for those that configure a job."""
        fill(tmp_path, {".git/x": LOG, ".swp": LOG, "a.log": LOG, ".deepspeed_env": b"A=1\n"})
        sources, gaps = open_sources([str(tmp_path)])
        assert ([".deepspeed_env", "a.log"], []) == (names(sources), gaps)
        assert "config" == sources[0].kind

    def test_equal_names_are_told_apart(self, tmp_path: Path) -> None:
        """Files of two folders that share a name get the folder before it."""
        fill(tmp_path, {"a/rank0.log": LOG, "b/rank0.log": LOG, "b/x.log": LOG})
        sources, _ = open_sources([str(tmp_path / "a"), str(tmp_path / "b")])
        a, b = f"{tmp_path}/a/rank0.log", f"{tmp_path}/b/rank0.log"
        assert {a, b, "x.log"} == set(names(sources))

    def test_order_does_not_depend_on_the_arguments(self, tmp_path: Path) -> None:
        """Whatever order paths are given in, sources and gaps come in the same one."""
        fill(tmp_path, {f"d{i}/rank{i}.log": LOG for i in range(6)} | {"d3/x.bin": b"\0\1\2" * 99})
        paths = [str(tmp_path / f"d{i}") for i in range(6)]
        expected = open_sources(paths)
        for seed in range(5):
            random.Random(seed).shuffle(paths)
            found = open_sources(paths)
            assert (names(expected[0]), expected[1]) == (names(found[0]), found[1])

    def test_natural_order(self) -> None:
        """Numbers in names count as numbers."""
        assert ["r2", "r10", "r10a"] == sorted(["r10a", "r10", "r2"], key=natural_key)

    @posix
    def test_names_that_are_not_utf8_or_control_the_terminal(self, tmp_path: Path) -> None:
        """Odd file names are read, and shown without their escapes."""
        try:
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff\x1b[31m.log")).write_bytes(LOG)
        except OSError:
            pytest.skip("this file system takes UTF-8 names only")
        (source,), _ = open_sources([str(tmp_path)])
        assert ("a\ufffd.log", LOG) == (source.name, text(source))

    def test_too_many_files(self, tmp_path: Path) -> None:
        """A folder with more files than the limit is read up to it."""
        fill(tmp_path, {f"{i}.log": LOG for i in range(9)})
        sources, gaps = open_sources([str(tmp_path)], limits=Limits(max_files=4))
        assert 4 == len(sources)
        assert "more than 4 files" in gaps[0].reason

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    def test_files_without_a_size(self) -> None:
        """Files of /proc claim no size and are read all the same."""
        (source,), _ = open_sources(["/proc/self/status"])
        assert text(source).startswith(b"Name:")


class TestNothingLeft:
    """When an error is raised, and when a gap is enough."""

    @pytest.mark.parametrize(
        ("fault", "files", "give"),
        [
            ("no such file", {}, "gone.log"),
            ("is empty", {"a.log": b""}, "a.log"),
            ("all 2 files are empty", {"a.log": b"", "b.log": b""}, ""),
            ("no file in it", {}, ""),
            ("binary file, skipped", {"core": b"\x7fELF" + bytes(99)}, "core"),
            ("no readable text file", {"core": b"\x7fELF" + bytes(99)}, ""),
            ("compressed twice", {"a.gz": gzip.compress(gzip.compress(LOG))}, "a.gz"),
            ("truncated gzip", {"a.gz": gzip.compress(LOG)[:10]}, "a.gz"),
        ],
    )
    def test_errors_name_place_fault_and_remedy(
        self, tmp_path: Path, fault: str, files: dict[str, bytes], give: str
    ) -> None:
        """Nothing readable: one error with the path, what is wrong, and what helps."""
        fill(tmp_path, files)
        with pytest.raises(InputError, match=fault) as caught:
            open_sources([str(tmp_path / give)])
        assert str(tmp_path) in caught.value.where
        assert caught.value.remedy

    def test_beside_something_readable_they_are_gaps(self, tmp_path: Path) -> None:
        """The same faults beside one good log are gaps."""
        fill(tmp_path, {"a.log": b"", "core": b"\x7fELF" + bytes(99), "rank1.log": LOG})
        given = [str(tmp_path / n) for n in ("a.log", "core", "rank1.log", "gone.log")]
        sources, gaps = open_sources(given)
        assert [0, len(LOG)] == [s.size_bytes for s in sources]
        assert {"is empty", "binary file, skipped", "no such file or folder"} == {
            g.reason for g in gaps
        }

    def test_an_empty_rank_log_is_evidence(self, tmp_path: Path) -> None:
        """In a folder, a rank that wrote nothing is a source without text, and no gap."""
        sources, gaps = open_sources([str(fill(tmp_path, {"rank0.log": LOG, "rank1.log": b""}))])
        assert ([len(LOG), 0], []) == ([s.size_bytes for s in sources], gaps)
        assert b"" == text(sources[1])

    def test_no_path_at_all(self) -> None:
        """No path is an error as well."""
        with pytest.raises(InputError):
            open_sources([])
        with pytest.raises(InputError):
            open_sources(["a\0b"])
        with pytest.raises(InputError):
            open_sources([""])

    @posix
    def test_permission_denied(self, tmp_path: Path) -> None:
        """A file or folder that may not be read is a gap, or alone an error."""
        fill(tmp_path, {"rank1.log": LOG, "rank2.log": LOG, "d/rank3.log": LOG})
        (tmp_path / "rank2.log").chmod(0)
        (tmp_path / "d").chmod(0)
        if os.access(tmp_path / "rank2.log", os.R_OK):
            pytest.skip("this user may read everything")
        try:
            sources, gaps = open_sources([str(tmp_path)])
            assert ["rank1.log"] == names(sources)
            assert [Gap(source=s, reason="permission denied") for s in ("d", "rank2.log")] == gaps
            with pytest.raises(InputError, match="permission denied"):
                open_sources([str(tmp_path / "rank2.log")])
        finally:
            (tmp_path / "d").chmod(0o700)

    @posix
    def test_sockets_and_fifos_in_a_folder(self, tmp_path: Path) -> None:
        """What could block for ever is not opened."""
        fill(tmp_path, {"rank1.log": LOG})
        os.mkfifo(tmp_path / "fifo")
        server = socket.socket(socket.AF_UNIX)
        try:
            server.bind(os.path.relpath(tmp_path / "sock"))
            sources, gaps = open_sources([str(tmp_path)])
        finally:
            server.close()
        assert ["rank1.log"] == names(sources)
        assert ["fifo", "sock"] == [g.source for g in gaps]

    def test_missing_zstd(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a Zstandard library a .zst is a gap, or alone an error naming the package."""
        monkeypatch.setitem(sys.modules, "compression", None)
        monkeypatch.setitem(sys.modules, "zstandard", None)
        fill(tmp_path, {"rank1.log.zst": b"\x28\xb5\x2f\xfd" + bytes(20), "rank2.log": LOG})
        sources, gaps = open_sources([str(tmp_path)])
        assert ["rank2.log"] == names(sources)
        assert "Zstandard" in gaps[0].reason
        with pytest.raises(MissingExtraError, match="pip install zstandard") as caught:
            open_sources([str(tmp_path / "rank1.log.zst")])
        assert caught.value.where.endswith("rank1.log.zst")

    def test_missing_fsspec(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without fsspec a URL says which extra to install."""
        monkeypatch.setitem(sys.modules, "fsspec", None)
        with pytest.raises(MissingExtraError, match=r"rootrank\[fsspec\]"):
            open_sources(["s3://bucket/rank3.log"])


class TestReading:
    """What `blocks` gives."""

    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
    def test_compressed_files(self, tmp_path: Path, pack: object) -> None:
        """Compression is recognised by content, not by the name."""
        packed = pack(LOG * 500)  # type: ignore[operator]
        fill(tmp_path, {"rank3.log": packed, "rank4.log.gz": packed + packed})
        sources, _ = open_sources([str(tmp_path)])
        assert [LOG * 500, LOG * 1000] == [text(s) for s in sources]
        assert [None, None] == [s.size_bytes for s in sources]
        assert [3, 4] == [s.origin.rank for s in sources]

    def test_text_called_gz(self, tmp_path: Path) -> None:
        """A plain file with a compressed name is text."""
        (source,), _ = open_sources([str(fill(tmp_path, {"rank3.log.gz": LOG}))])
        assert LOG == text(source)

    def test_a_truncated_file_says_where(self, tmp_path: Path) -> None:
        """The text before the cut is read; the gap says how much there was, once."""
        data = random.Random(1).randbytes(200_000).hex().encode()
        fill(tmp_path, {"rank3.log.gz": gzip.compress(data)[:-5000]})
        (source,), gaps = open_sources([str(tmp_path)])
        found = text(source)
        assert data.startswith(found)
        assert len(found) > 380_000
        text(source)
        reason = f"truncated gzip after {len(found):,} bytes"
        assert ([], [Gap(source="rank3.log.gz", reason=reason)]) == (gaps, source.gaps)

    def test_truncated_gzip_at_every_byte(self, tmp_path: Path) -> None:
        """No cut raises anything but InputError, and every cut that leaves text is noted."""
        packed = gzip.compress(LOG * 3, mtime=0)
        path = tmp_path / "rank3.log.gz"
        for cut in range(2, len(packed)):
            path.write_bytes(packed[:cut])
            try:
                (source,), _ = open_sources([str(path)])
            except InputError:
                continue
            assert (LOG * 3).startswith(text(source))
            assert source.gaps

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
    def test_encodings(self, tmp_path: Path, encoding: str) -> None:
        """Wide text arrives as UTF-8, also from inside a compressed file."""
        raw = ("Größe " + LOG.decode() * 9).encode(encoding)
        fill(tmp_path, {"a.log": raw, "b.log": gzip.compress(raw)})
        for source in open_sources([str(tmp_path)])[0]:
            assert ("Größe " + LOG.decode() * 9).encode() == text(source)

    def test_bad_utf8_and_nul_runs_pass_through(self, tmp_path: Path) -> None:
        """Torn and broken text is still text; repair is the line decoder's work."""
        raw = LOG * 20 + b"\0" * 5000 + b"\xff\xfe\xe2\x96" + LOG
        (source,), _ = open_sources([str(fill(tmp_path, {"a.log": raw}))])
        assert raw == text(source)

    def test_a_hole_at_the_start(self, tmp_path: Path) -> None:
        """Truncation under a writer leaves NULs before the text; what follows decides."""
        fill(tmp_path, {"a.log": bytes(3 << 20) + LOG, "b": bytes(3 << 20) + b"\x7fELF\1\2\3"})
        sources, gaps = open_sources([str(tmp_path)])
        assert ["a.log"] == names(sources)
        assert text(sources[0]).endswith(LOG)
        assert ["b"] == [g.source for g in gaps]

    def test_one_line_of_50_mb_in_bounded_memory(self, tmp_path: Path) -> None:
        """Blocks do not wait for a newline."""
        path = tmp_path / "a.log"
        with path.open("wb") as file:
            for _ in range(50):
                file.write(b"x" * 1_000_000)
        (source,), _ = open_sources([str(path)])
        tracemalloc.start()
        done = sum(len(block) for block in source.blocks())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 50_000_000 == done
        assert 8 << 20 > peak

    def test_gzip_of_zeros_in_bounded_memory(self, tmp_path: Path) -> None:
        """A gigabyte-to-be of zeros ends at the limit, with a gap."""
        fill(tmp_path, {"a.log.gz": gzip.compress(LOG + bytes(100 << 20), 9)})
        (source,), _ = open_sources([str(tmp_path)], limits=Limits(max_ratio=100))
        tracemalloc.start()
        done = sum(len(block) for block in source.blocks())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 64 << 20 <= done < 90 << 20
        assert 8 << 20 > peak
        assert "decompression stopped" in source.gaps[0].reason

    def test_a_vanished_file(self, tmp_path: Path) -> None:
        """A log that is deleted between finding and reading is a gap of its source."""
        sources, _ = open_sources([str(fill(tmp_path, {"a.log": LOG, "b.log.gz": LOG}))])
        for path in list(tmp_path.iterdir()):
            path.unlink()
        for source in sources:
            assert b"" == text(source)
            assert "vanished before it was read" == source.gaps[0].reason

    @posix
    def test_a_file_replaced_by_a_fifo(self, tmp_path: Path) -> None:
        """A swap for a FIFO does not hang the reader."""
        (source,), _ = open_sources([str(fill(tmp_path, {"a.log": LOG}))])
        (tmp_path / "a.log").unlink()
        os.mkfifo(tmp_path / "a.log")
        assert b"" == text(source)
        assert "no longer a regular file" in source.gaps[0].reason

    def test_a_shrunk_file(self, tmp_path: Path) -> None:
        """A log that was cut since it was listed says so."""
        (source,), _ = open_sources([str(fill(tmp_path, {"a.log": LOG * 2}))])
        (tmp_path / "a.log").write_bytes(LOG)
        assert LOG == text(source)
        assert f"file shrank to {len(LOG)} of {2 * len(LOG)} bytes" in source.gaps[0].reason

    def test_other_processes_and_threads(self, tmp_path: Path) -> None:
        """Sources can be pickled and read in parallel."""
        files = {f"rank{i}.log": LOG * i for i in range(1, 30)}
        sources, _ = open_sources([str(fill(tmp_path, files))])
        copies = pickle.loads(pickle.dumps(sources))
        with ThreadPoolExecutor(8) as pool:
            assert [LOG * i for i in range(1, 30)] == list(pool.map(text, copies))

    def test_a_reader_that_stops_early(self, tmp_path: Path) -> None:
        """Abandoning the iteration closes the file."""
        (source,), _ = open_sources([str(fill(tmp_path, {"a.log": LOG * 99}))])
        blocks = source.blocks(10)
        assert 10 == len(next(iter(blocks)))
        del blocks
        (tmp_path / "a.log").unlink()


class TestStreams:
    """Standard input and other pipes."""

    @pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
    def test_stdin(self, pack: object) -> None:
        """A piped log is read, compressed or not."""
        (source,), _ = open_sources(["-"], stdin=io.BytesIO(pack(LOG * 9)))  # type: ignore[operator]
        assert ("stdin", LOG * 9) == (source.name, text(source))
        assert b"" == text(source)

    def test_wide_stdin(self) -> None:
        """UTF-16 through a pipe is recognised as well."""
        raw = LOG.decode().encode("utf-16")
        (source,), _ = open_sources(["-"], stdin=io.BytesIO(raw))
        assert LOG == text(source)

    @pytest.mark.parametrize(
        ("fault", "data"),
        [
            ("is empty", b""),
            ("binary", b"\x7fELF" + bytes(200)),
            ("archive cannot be read from a stream", b"PK\x03\x04" + bytes(200)),
        ],
    )
    def test_unreadable_stdin(self, fault: str, data: bytes) -> None:
        """Empty, binary and archive input through a pipe is an error."""
        with pytest.raises(InputError, match=fault):
            open_sources(["-"], stdin=io.BytesIO(data))

    @posix
    def test_a_slow_pipe(self) -> None:
        """Single bytes and pauses do not confuse the look at the first bytes."""
        reading, writing = os.pipe()

        def write() -> None:
            for byte in LOG:
                os.write(writing, bytes([byte]))
            os.close(writing)

        writer = threading.Thread(target=write)
        writer.start()
        with os.fdopen(reading, "rb") as stdin:
            (source,), _ = open_sources(["-"], stdin=stdin)
            assert LOG == text(source)
        writer.join()

    @posix
    def test_a_fifo_that_was_given(self, tmp_path: Path) -> None:
        """A FIFO, as a shell's <(…) makes it, is read when it is named."""
        path = tmp_path / "fifo"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(LOG * 3,))
        writer.start()
        (source,), _ = open_sources([str(path)])
        assert LOG * 3 == text(source)
        writer.join()


class TestUrls:
    """fsspec URLs."""

    def test_remote_folders_files_and_patterns(self) -> None:
        """A remote folder, file, pattern or archive is read like a local one."""
        fsspec = pytest.importorskip("fsspec")
        memory = fsspec.filesystem("memory")
        memory.pipe("/run/node-7/rank3.log", LOG)
        memory.pipe("/run/node-7/rank10.log.gz", gzip.compress(LOG))
        memory.pipe("/run/core", b"\x7fELF" + bytes(99))
        sources, gaps = open_sources(["memory://run"])
        assert ["node-7/rank3.log", "node-7/rank10.log.gz"] == names(sources)
        assert [LOG, LOG] == [text(s) for s in sources]
        assert [3, 10] == [s.origin.rank for s in sources]
        assert ["core"] == [g.source for g in gaps]
        assert 1 == len(open_sources(["memory://run/node-7/rank3.log"])[0])
        assert 2 == len(open_sources(["memory://run/*/rank*"])[0])
        with pytest.raises(InputError, match="no such file"):
            open_sources(["memory://nowhere/x.log"])

    def test_remote_archives(self, tmp_path: Path) -> None:
        """Archives behind a URL are streamed as well."""
        fsspec = pytest.importorskip("fsspec")
        import tarfile

        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            info = tarfile.TarInfo("rank5.log")
            info.size = len(LOG)
            archive.addfile(info, io.BytesIO(LOG))
        fsspec.filesystem("memory").pipe("/b/bundle.tar.gz", buffer.getvalue())
        (source,), _ = open_sources(["memory://b/bundle.tar.gz"])
        assert (5, LOG) == (source.origin.rank, text(source))

    def test_file_urls(self, tmp_path: Path) -> None:
        """file:// needs no fsspec."""
        fill(tmp_path, {"rank3.log": LOG})
        (source,), _ = open_sources([f"file://{tmp_path}/rank3.log"])
        assert LOG == text(source)

    def test_an_unknown_scheme(self) -> None:
        """A scheme that nobody knows is an input error."""
        pytest.importorskip("fsspec")
        with pytest.raises(InputError):
            open_sources(["nosuch://x/y"])
