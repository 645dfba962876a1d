"""A second name for a file, where hard links are possible and where they are not."""

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from belvedere.runtime.errors import FileExists, FileMissing
from belvedere.runtime.real import RealRuntime, run
from belvedere.storage import linking
from belvedere.storage.linking import link_or_copy


@pytest.mark.parametrize("number", [None, errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_the_same_content_under_both_names_and_nothing_is_overwritten(
    number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, other = tmp_path / "source", tmp_path / "target", tmp_path / "other"
    source.write_bytes(bytes(range(95)))
    other.write_bytes(b"other")
    monkeypatch.setattr(linking, "COPY_BYTES", 10)

    def refuse(source: str, target: str) -> NoReturn:
        raise OSError(number, os.strerror(number or 0))

    if number is not None:
        monkeypatch.setattr(os, "link", refuse)

    async def main(runtime: RealRuntime) -> None:
        await link_or_copy(runtime.disk, str(source), str(target))
        assert target.read_bytes() == bytes(range(95))
        assert source.samefile(target) == (number is None)
        with pytest.raises(FileExists):
            await link_or_copy(runtime.disk, str(other), str(target))
        assert source.read_bytes() == target.read_bytes() == bytes(range(95))
        if number is None:
            with pytest.raises(FileMissing):
                await link_or_copy(runtime.disk, str(tmp_path / "absent"), str(tmp_path / "new"))
            assert not (tmp_path / "new").exists()

    run(main)
