"""What was said in a conversation, and what is forgotten of it."""

from gesso.cli.conversation import Conversation


def test_an_answer_stays_where_another_one_does_not_come() -> None:
    said = Conversation("s")
    said.ask("one")
    said.answer("fig")
    assert said.reopen()
    assert said.messages[-1] == {"role": "user", "content": "one"}
    assert said.give_up() == "the answer before stays"
    assert said.messages[-1] == {"role": "assistant", "content": "fig"}
    said.ask("two")
    assert said.give_up() == "this turn is forgotten"
    assert said.messages[-1] == {"role": "assistant", "content": "fig"}


def test_clear_leaves_the_system_message() -> None:
    said = Conversation("s")
    said.ask("one")
    said.answer("fig")
    said.clear()
    assert said.begins
    assert said.messages == [{"role": "system", "content": "s"}]
    assert not said.undo()
    assert not said.reopen()
