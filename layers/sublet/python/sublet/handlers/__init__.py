"""Handlers: user code of other contracts as our Handler port."""
