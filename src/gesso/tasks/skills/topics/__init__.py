"""Asks which of the topics that a request names a text is about."""

from gesso.tasks.skills.topics.skill import Topics

__all__ = ["Topics"]
