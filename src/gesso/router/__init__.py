"""Stands before several servers as one: keeps conversations together, and goes on with streams whose server is lost."""
