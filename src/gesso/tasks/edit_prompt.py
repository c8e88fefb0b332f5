"""Writes what an edit asks with; the task that trains it and the edit itself share it."""

_AROUND = "A part of a text is to be changed. What stands around it is shown to be understood; it stays as it is."
_TASK = "Change the part as follows, and answer with the changed part alone."


def edit_prompt(instruction: str, part: str, before: str, after: str) -> str:
    """Returns the user's message: the instruction and the text to change, below what stands around it."""
    shown = (("Before the part:", before.strip("\r\n")), ("After the part:", after.strip("\r\n")))
    sides = [f"{title}\n{text}" for title, text in shown if text.strip()]
    ask = f"{instruction}\n\n{part}"
    return "\n\n".join([_AROUND, *sides, _TASK, ask]) if sides else ask


def changed_line(source: str, answer: str) -> tuple[str, str, str, str]:
    """Returns the line that a change is in, without its indentation: what stands above it, the line before and after
    the change, and what stands below. Where several lines change, the whole is what changes.

    Raises:
        ValueError: the texts have not as many lines.
    """
    old, new = source.split("\n"), answer.split("\n")
    changed = [i for i, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    if len(changed) > 1:
        return "", source, answer, ""
    index = changed[0] if changed else 0
    return "\n".join(old[:index]), old[index].lstrip(), new[index].lstrip(), "\n".join(old[index + 1 :])
