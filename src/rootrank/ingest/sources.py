"""Finds the sources of evidence behind the paths that a user gives, and reads them as bytes.

Belongs here: files, folders, patterns, archives, streams and URLs becoming `Source` values.
Must not be here: lines, prefixes, time stamps, and any judgement of what a source says.

Whatever cannot be read becomes a `Gap`; an error is raised only when nothing at all is left.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final

from rootrank.errors import InputError, MissingExtraError, RootrankError
from rootrank.ingest import archives, sniff, streams
from rootrank.ingest.archives import Member
from rootrank.ingest.decode import clean_text
from rootrank.ingest.names import from_path, kind_of
from rootrank.ingest.streams import BrokenError, Limits, NotThereError, Stream
from rootrank.model import UNKNOWN, Gap, Origin

__all__ = ["Limits", "Source", "open_sources"]

_STDIN: Final = "-"
_GIVE: Final = "give the log files, or the folder that holds them"
# Hidden, yet they say how a job was configured.
_USEFUL_HIDDEN: Final = frozenset({".deepspeed_env", ".nccl.conf", ".hydra"})
_NESTED: Final = "archive inside an archive: not read, unpack it first"
_TWICE: Final = "compressed twice: not read, decompress it once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a source's bytes are, in values that another process can use as well."""

    path: str  # local path or URL
    codec: str | None = None  # compression of the file as a whole
    member: Member | None = None  # a member of the archive in the file
    member_codec: str | None = None  # compression of that member (rank3.log.gz in a tar)
    encoding: str = "utf-8"
    checked: bool = True  # False: whether it is text shows at the first block only
    last: bool = False  # the archive's last source: it need not stay open for another
    limits: Limits

    def open(self, expected_bytes: int | None) -> Stream:
        """Return the decompressed bytes."""
        if self.member is None:
            return streams.open_stream(self.path, self.codec, self.limits, expected_bytes)
        keep = not self.last
        stream = archives.open_member(self.path, self.codec, self.member, self.limits, keep=keep)
        if self.member_codec is None:
            return stream
        return streams.Inflated(stream, self.member_codec, self.limits)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """One readable source. Can be sent to another process unless it is a stream."""

    name: str  # shown to the user; unique within one call of `open_sources`
    path: str  # local path or URL of the file (of the archive, for a member); "-" for stdin
    kind: str  # training-log, kernel-log, … (design, section 2), from the name alone
    size_bytes: int | None  # decoded size where known before reading
    origin: Origin = UNKNOWN
    place: Place | None = None  # None for a stream
    stream: Stream | None = field(default=None, repr=False)
    gaps: list[Gap] = field(default_factory=list)  # grows while `blocks` is consumed

    def blocks(self, block_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Yield the text as UTF-8 bytes, 1 to about 1.5 x `block_bytes` at a time.

        Decompressed, byte-order mark dropped, UTF-16 and UTF-32 transcoded; other bytes unchanged,
        lines cut anywhere. Never raises for what it finds: data that cannot be read ends the
        iteration and is noted in `gaps`. Files can be read again, a stream once.
        """
        done = 0
        stream: Stream | None = None
        try:
            stream = self._open()
            convert = sniff.ToUtf8(self.place.encoding if self.place else "utf-8")
            first = True
            while True:
                data = stream.read(block_bytes)
                if first:
                    first = False
                    data, convert = self._examine(stream, data, convert)
                if not data:
                    break
                done += len(data)
                text = convert.feed(data)
                if text:
                    yield text
            rest = convert.finish()
            if rest:
                yield rest
        except BrokenError as error:
            self._lost(str(error), done)
        except (OSError, NotThereError, MissingExtraError) as error:
            self._lost(_fault_of(error), done)
        finally:
            if stream is not None:
                stream.close()

    def _open(self) -> Stream:
        if self.place is not None:
            regular = self.place.codec is None and self.place.member is None
            return self.place.open(self.size_bytes if regular else None)
        if self.stream is None:
            raise BrokenError("a stream can be read only once")
        return self.stream

    def _examine(
        self, stream: Stream, data: bytes, convert: sniff.ToUtf8
    ) -> tuple[bytes, sniff.ToUtf8]:
        """Decide on text and encoding at the first block where that was not possible before."""
        if self.place is not None and self.place.checked:
            return data, convert
        while 0 < len(data) < 4:  # a pipe may hand out single bytes
            more = stream.read(sniff.HEAD_BYTES)
            if not more:
                break
            data += more
        head = data[: sniff.HEAD_BYTES]
        packed = archives.is_tar(head) or archives.is_zip(head)
        reason = _NESTED if packed else sniff.binary_reason(head)
        if streams.codec_of(head) is not None:
            reason = _TWICE
        if reason is not None:
            raise BrokenError(reason)
        return data, sniff.ToUtf8(sniff.encoding_of(head))

    def _lost(self, reason: str, done: int) -> None:
        gap = Gap(source=self.name, reason=f"{reason} after {done:,} bytes" if done else reason)
        if gap not in self.gaps:  # read again, it breaks again
            self.gaps.append(gap)


def open_sources(
    paths: Sequence[str],
    *,
    stdin: BinaryIO | None = None,
    limits: Limits | None = None,
) -> tuple[list[Source], list[Gap]]:
    """Return every readable source behind `paths`, in an order that does not depend on theirs.

    A path is a file, a folder (recursive, without hidden files and binary ones), a pattern with
    `*`, `?`, `[…]` or `**`, `-` for `stdin`, or a URL for fsspec. Compressed files are recognised
    by their first bytes; tar and zip archives become one source per member. A file reached twice is
    one source. What cannot be read is a gap.

    Raises InputError, or MissingExtraError, when nothing with text remains.
    """
    finder = _Finder(limits or Limits(), stdin)
    for path in paths:
        finder.add(path)
    return finder.result()


@dataclass(slots=True, kw_only=True)
class _File:
    """A file that was found, before anyone looked into it."""

    name: str  # shown
    path: str
    label: str  # the given path that led here; tells equal names apart
    origin_name: str  # what the name tables see: the name under its folder's own name
    size: int | None = None
    link: bool = False
    explicit: bool = False


class _Finder:
    """Collects what the given paths hold."""

    def __init__(self, limits: Limits, stdin: BinaryIO | None) -> None:
        self._limits, self._stdin = limits, stdin
        self._files: dict[str, _File] = {}  # by real path
        self._found: list[tuple[str, Source]] = []  # (label, source)
        self._gaps: list[Gap] = []
        self._errors: list[RootrankError] = []
        self._given: list[str] = []

    # ------------------------------------------------------------------ what was given

    def add(self, path: str) -> None:
        """Find the files behind one given path."""
        if path in self._given:
            return
        self._given.append(path)
        try:
            if path == _STDIN:
                self._add_stream("stdin", self._stdin or sys.stdin.buffer)
            elif path.startswith("file://"):
                self._add_local(path.removeprefix("file://"))
            elif streams.is_url(path):
                self._add_url(path)
            else:
                self._add_local(path)
        except NotThereError as error:
            self._fail(path, error.fault, error.remedy)
        except MissingExtraError as error:
            self._errors.append(error)
            self._gap(path, error.fault)
        except OSError as error:
            self._fail(path, *streams.os_fault(error))

    def _add_local(self, path: str) -> None:
        try:
            status = os.stat(path)  # noqa: PTH116 - the text as given may be no clean path
        except FileNotFoundError:
            if not glob.has_magic(path):
                raise
            matches = sorted(glob.glob(path, recursive=True), key=natural_key)  # noqa: PTH207
            if not matches:
                raise NotThereError("no file matches this pattern", "check the pattern") from None
            for match in matches:
                self.add(match)
            return
        except ValueError:  # an embedded NUL
            raise NotThereError("is no valid path", "check the path") from None
        if stat.S_ISDIR(status.st_mode):
            self._walk(path)
        elif stat.S_ISREG(status.st_mode):
            self._note(_named_file(path, status.st_size))
        elif stat.S_ISSOCK(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise NotThereError("is a socket or a disk", _GIVE)
        else:  # a FIFO, /dev/stdin, a shell's <(…)
            self._add_stream(show(path), open(path, "rb", buffering=0))  # noqa: SIM115, PTH123

    def _add_stream(self, name: str, file: BinaryIO) -> None:
        """Take a stream that can be read once, and cannot be looked into twice."""
        try:
            head = streams.read_head(streams.WrappedStream(file, owned=False), 8)
        except BrokenError as error:
            raise NotThereError(str(error), "check what writes into it") from None
        if not head:
            raise NotThereError("is empty", "pipe the log into it")
        # One more read, for whatever is there already, tells archives and encodings apart.
        plain = streams.WrappedStream(file, head, owned=name != "stdin")
        more = b""
        if len(head) == 8:
            read1: Callable[[int], bytes] = getattr(file, "read1", file.read)
            more = read1(sniff.HEAD_BYTES) or b""
            plain = streams.WrappedStream(file, head + more, owned=name != "stdin")
        if archives.is_zip(head) or archives.is_tar(head + more):
            raise NotThereError("an archive cannot be read from a stream", "save it to a file")
        codec = streams.codec_of(head + more)
        reason = None if codec else sniff.binary_reason(head + more)
        if reason is not None:
            raise NotThereError(reason, _GIVE)
        stream: Stream = streams.Inflated(plain, codec, self._limits) if codec else plain
        source = Source(name=name, path=_STDIN, kind=kind_of(name), size_bytes=None, stream=stream)
        self._found.append((name, source))

    def _add_url(self, url: str) -> None:
        system, inner = streams.filesystem(url)
        try:
            paths = self._url_files(system, inner)
        except (OSError, NotThereError):
            raise
        except Exception as error:  # drivers raise errors of their own for access and network
            raise NotThereError(" ".join(str(error).split())[:200], "check the URL") from None
        root = system.unstrip_protocol(inner).rstrip("/")
        for path in sorted(paths, key=natural_key):
            full = system.unstrip_protocol(path)
            below = full.removeprefix(root + "/")
            name = below if below != full else full
            self._note(
                _File(
                    name=show(name),
                    path=full,
                    label=url,
                    origin_name="/".join(full.split("/")[-4:]),
                    explicit=below == full,
                )
            )

    def _url_files(self, system: Any, inner: str) -> list[str]:
        if glob.has_magic(inner):
            found = [str(p) for p in system.glob(inner)]
        elif system.isdir(inner):
            found = [str(p) for p in system.find(inner)]
        elif system.exists(inner):
            return [inner]
        else:
            found = []
        if not found:
            raise NotThereError("no such file or folder", "check the URL")
        return found[: self._limits.max_files]

    # ------------------------------------------------------------------ folders

    def _walk(self, root: str) -> None:
        """Note every regular file below `root`, links included, each folder once."""
        base = os.path.basename(os.path.normpath(root))  # noqa: PTH119
        label = root.rstrip("/\\") or root
        todo = [(root, "")]
        links: list[tuple[str, str]] = []  # last: a folder is better known by its own name
        seen: set[str] = set()
        count = 0
        while todo or links:
            folder, below = todo.pop() if todo else links.pop(0)
            real = os.path.realpath(folder)
            if real in seen:  # a link back up, or a second link to the same folder
                continue
            seen.add(real)
            deeper: list[tuple[str, str]] = []
            for entry in self._entries(folder, below or label):
                name = f"{below}/{entry.name}" if below else entry.name
                if entry.name.startswith(".") and entry.name not in _USEFUL_HIDDEN:
                    continue
                if self._is_folder(entry):
                    (links if entry.is_symlink() else deeper).append((entry.path, name))
                    continue
                count += 1
                if count > self._limits.max_files:
                    self._gap(label, f"more than {self._limits.max_files:,} files: rest not read")
                    return
                self._note_entry(entry, show(name), label, f"{base}/{name}")
            todo.extend(reversed(deeper))

    def _entries(self, folder: str, shown: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda e: natural_key(e.name))
        except OSError as error:
            self._gap(show(shown), streams.os_fault(error)[0])
            return []

    @staticmethod
    def _is_folder(entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir()
        except OSError:  # a link that points to itself
            return False

    def _note_entry(
        self, entry: os.DirEntry[str], shown: str, label: str, origin_name: str
    ) -> None:
        try:
            status = entry.stat()
        except OSError as error:
            fault = "broken link" if entry.is_symlink() else streams.os_fault(error)[0]
            self._gap(shown, fault)
            return
        if not stat.S_ISREG(status.st_mode):
            self._gap(shown, "a socket, FIFO or device: not read")
            return
        self._note(
            _File(
                name=shown,
                path=entry.path,
                label=label,
                origin_name=origin_name,
                size=status.st_size,
                link=entry.is_symlink(),
            )
        )

    def _note(self, file: _File) -> None:
        """Remember a file under its real path; of several names the one that is no link counts."""
        url = streams.is_url(file.path)
        real = file.path if url else os.path.realpath(file.path)
        known = self._files.get(real)
        if known is None or (known.link and not file.link):
            self._files[real] = file

    # ------------------------------------------------------------------ looking into files

    def result(self) -> tuple[list[Source], list[Gap]]:
        """Return sources and gaps, or raise when there is nothing to read."""
        for file in self._files.values():
            try:
                self._probe(file)
            except BrokenError as error:
                self._drop(file, str(error))
            except NotThereError as error:
                self._drop(file, error.fault)
            except MissingExtraError as error:
                self._errors.append(MissingExtraError(file.name, error.fault, error.remedy))
                self._gap(file.name, error.fault)
            except OSError as error:
                self._drop(file, *streams.os_fault(error))
        sources = _unique(self._found)
        if not any(source.size_bytes != 0 for source in sources):
            raise self._nothing(sources)
        # An empty file in a folder is a rank that never spoke; one that was named is a surprise.
        named = {file.path for file in self._files.values() if file.explicit}
        self._gaps.extend(
            Gap(source=source.name, reason="is empty")
            for source in sources
            if source.size_bytes == 0 and source.path in named and not _is_member(source)
        )
        return sources, sorted(set(self._gaps), key=lambda g: (natural_key(g.source), g.reason))

    def _probe(self, file: _File) -> None:
        """Turn one file into sources, or into a gap."""
        head = _head_of(file.path, None, self._limits, sniff.HEAD_BYTES)
        codec = streams.codec_of(head)
        if codec is not None:
            # A whole block of a compressor may be needed for the first byte.
            head = _head_of(file.path, codec, self._limits, sniff.HEAD_BYTES)
        if archives.is_tar(head) or (_TAR_NAME.search(file.path) and is_bare_tar(head)):
            self._members(file, codec, self._tar(file, codec))
        elif archives.is_zip(head) and codec is None and self._opens_zip(file):
            self._members(file, None, archives.zip_members(file.path, self._limits))
        elif codec is not None and streams.codec_of(head) is not None:
            self._drop(file, _TWICE)
        elif _is_record(file.origin_name, head):
            place = Place(path=file.path, codec=codec, limits=self._limits)
            size = file.size if codec is None else None
            found = _source(file.name, file.origin_name, place, size)
            self._found.append((file.label, replace(found, kind="flight-record")))
        elif (reason := sniff.binary_reason(self._past_hole(file, codec, head))) is not None:
            self._drop(file, reason)
        else:
            encoding = sniff.encoding_of(head)
            known = codec is None and encoding.startswith("utf-8")
            size = file.size if known else None
            size = (size or None) if head else 0  # files of /proc claim 0
            place = Place(path=file.path, codec=codec, encoding=encoding, limits=self._limits)
            self._found.append((file.label, _source(file.name, file.origin_name, place, size)))

    def _opens_zip(self, file: _File) -> bool:
        """Checkpoints, wheels and arrays are zip files too; in a folder they are no evidence."""
        return file.explicit or file.path.lower().endswith(".zip")

    def _past_hole(self, file: _File, codec: str | None, head: bytes) -> bytes:
        """Return the first bytes behind leading NULs.

        Rotating a log by truncating it under a writer leaves a hole as long as the old log.
        """
        if not head or head.strip(b"\0"):
            return head
        stream = streams.open_stream(file.path, codec, self._limits)
        try:
            for _ in range(1024):  # GiB of hole at most
                data = stream.read(1 << 20).lstrip(b"\0")
                if data:
                    return data[: sniff.HEAD_BYTES]
        except BrokenError:
            pass
        finally:
            stream.close()
        return head

    def _tar(self, file: _File, codec: str | None) -> Iterator[tuple[Member, bytes]]:
        stream = streams.open_stream(file.path, codec, self._limits)
        try:
            yield from archives.tar_members(stream, self._limits)
        finally:
            stream.close()

    def _members(
        self, file: _File, codec: str | None, members: Iterable[tuple[Member, bytes]]
    ) -> None:
        """Turn an archive into one source per member, up to where it breaks."""
        archive = file.name + "!/"
        try:
            for member, head in members:
                if any(p.startswith(".") for p in member.name.split("/")) and (
                    member.name.rpartition("/")[2] not in _USEFUL_HIDDEN
                ):
                    continue
                self._member(file, codec, member, head)
        except BrokenError as error:
            self._gap(file.name, str(error))
            self._errors.append(InputError(file.name, str(error), "copy the file again"))
        if not self._found or not self._found[-1][1].name.startswith(archive):
            self._drop(file, "an archive without a text file")
            return
        label, source = self._found[-1]
        if source.place is not None:
            self._found[-1] = label, replace(source, place=replace(source.place, last=True))

    def _member(self, file: _File, codec: str | None, member: Member, head: bytes) -> None:
        name = f"{file.name}!/{member.name}"
        member_codec = streams.codec_of(head)
        checked = True
        if member_codec is not None:
            head, checked = _inflated_head(head, member_codec, self._limits)
        if member.size < 0:
            self._gap(name, "encrypted, sparse or compressed in a way that is not read")
        elif archives.is_tar(head) or archives.is_zip(head):
            self._gap(name, _NESTED)
        elif checked and member_codec is not None and streams.codec_of(head) is not None:
            self._gap(name, _TWICE)
        elif checked and _is_record(member.name, head):
            place = Place(
                path=file.path,
                codec=codec,
                member=member,
                member_codec=member_codec,
                limits=self._limits,
            )
            found = _source(name, member.name, place, None if member_codec else member.size)
            self._found.append((file.label, replace(found, kind="flight-record")))
        elif checked and (reason := sniff.binary_reason(head)) is not None:
            self._gap(name, reason)
        else:
            encoding = sniff.encoding_of(head)
            place = Place(
                path=file.path,
                codec=codec,
                member=member,
                member_codec=member_codec,
                encoding=encoding,
                checked=checked,
                limits=self._limits,
            )
            known = member_codec is None and encoding.startswith("utf-8")
            size = member.size if known else None
            source = _source(name, f"{file.origin_name}!/{member.name}", place, size)
            self._found.append((file.label, source))

    # ------------------------------------------------------------------ what went wrong

    def _gap(self, name: str, reason: str) -> None:
        self._gaps.append(Gap(source=name, reason=reason))

    def _fail(self, path: str, fault: str, remedy: str) -> None:
        """Note a given path that yields nothing."""
        self._errors.append(InputError(show(path), fault, remedy))
        self._gap(show(path), fault)

    def _drop(self, file: _File, fault: str, remedy: str = _GIVE) -> None:
        """Note a file that yields nothing."""
        if file.explicit:
            self._errors.append(InputError(file.name, fault, remedy))
        self._gap(file.name, fault)

    def _nothing(self, sources: list[Source]) -> RootrankError:
        """Return the error for input without any text."""
        if self._errors:
            return self._errors[0]
        where = show(self._given[0]) if self._given else "no path"
        if sources:
            fault = "is empty" if len(sources) == 1 else f"all {len(sources)} files are empty"
        elif self._gaps:
            first = self._gaps[0]
            fault = f"no readable text file; {len(self._gaps)} skipped ({first.reason})"
        else:
            fault = "no file in it"
        return InputError(where, fault, _GIVE)


# --------------------------------------------------------------------------- helpers


def _named_file(path: str, size: int) -> _File:
    """Return a file that was given as such."""
    parts = path.replace("\\", "/").split("/")
    # Deep enough for a torchrun tree: <run>/attempt_0/3/stderr.log
    origin_name = "/".join(parts[-4:])
    name = show(path)
    return _File(
        name=name, path=path, label=name, origin_name=origin_name, size=size, explicit=True
    )


def _is_record(origin_name: str, head: bytes) -> bool:
    """Return whether this is a flight-recorder dump: data, read by a reader of its own."""
    named = kind_of(origin_name) == "flight-record" and not origin_name.endswith(".pickle")
    return named or sniff.binary_reason(head) == sniff.FLIGHT_RECORD


def _source(name: str, origin_name: str, place: Place, size: int | None) -> Source:
    return Source(
        name=name,
        path=place.path,
        kind=kind_of(origin_name),
        size_bytes=size,
        origin=from_path(origin_name),
        place=place,
    )


def _head_of(path: str, codec: str | None, limits: Limits, size: int) -> bytes:
    stream = streams.open_stream(path, codec, limits)
    try:
        return streams.read_head(stream, size)
    finally:
        stream.close()


class _Bytes:
    """A stream over bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int, /) -> bytes:
        out, self._data = self._data[:size], self._data[size:]
        return out

    def close(self) -> None:
        self._data = b""


def _inflated_head(head: bytes, codec: str, limits: Limits) -> tuple[bytes, bool]:
    """Return (first decompressed bytes of a compressed member, whether there were any)."""
    try:
        stream = streams.Inflated(_Bytes(head), codec, limits)
        inflated = streams.read_head(stream, sniff.HEAD_BYTES)
    except (BrokenError, MissingExtraError):
        return b"", False
    return inflated, bool(inflated)


_TAR_NAME: Final = re.compile(r"\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tzst)$", re.I)


def is_bare_tar(head: bytes) -> bool:
    """Return whether a file named like a tar is one without the `ustar` mark: old, or empty."""
    return len(head) >= 512 and (archives.checksum_fits(head[:512]) or not head.strip(b"\0"))


_DIGITS: Final = re.compile(r"(\d{1,18})")


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Return a sort key that puts rank2 before rank10."""
    parts: list[str | int] = list(_DIGITS.split(name))
    parts[1::2] = [int(p) for p in parts[1::2]]
    return parts, name


def show(path: str) -> str:
    """Return a path fit to print: no controls, no bytes that are not UTF-8."""
    if path.isascii() and path.isprintable():
        return path
    raw = path.encode("utf-8", "surrogateescape" if os.name == "posix" else "replace")
    return clean_text(raw.decode("utf-8", "replace"))


def _fault_of(error: Exception) -> str:
    if isinstance(error, OSError):
        return streams.os_fault(error)[0]
    return str(getattr(error, "fault", error))


def _unique(found: list[tuple[str, Source]]) -> list[Source]:
    """Return the sources in order, equal names told apart by the path that was given."""
    counts = Counter(source.name for _, source in found)
    named = [
        (
            label,
            replace(source, name=f"{label}/{source.name}") if counts[source.name] > 1 else source,
        )
        for label, source in found
    ]
    named.sort(key=lambda item: _order(item[1]))
    taken: Counter[str] = Counter()
    result = []
    for _, source in named:
        taken[source.name] += 1
        if taken[source.name] > 1:
            source = replace(source, name=f"{source.name}#{taken[source.name]}")
        result.append(source)
    return result


def _is_member(source: Source) -> bool:
    return source.place is not None and source.place.member is not None


def _order(source: Source) -> tuple[tuple[list[str | int], str], int]:
    """Order by name, members of an archive as they lie in it: going back would reread it."""
    member = source.place.member if source.place else None
    if member is None:
        return natural_key(source.name), 0
    return natural_key(source.name.removesuffix(member.name)), member.index
