"""Says where an adapter was trained on another model than the one that it is put on."""

from pathlib import Path


def note_other_base(adapter: Path | str | None, model: str) -> None:
    """Prints a line where an adapter was trained on another model than `model` (`gesso.models.other_base`)."""
    from gesso.cli.failure import remark
    from gesso.models.other_base import other_base

    if adapter is not None and (told := other_base(Path(adapter), model)):
        remark(f"gesso: warning: {told}")
