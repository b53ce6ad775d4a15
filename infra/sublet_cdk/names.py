"""Names stacks, as the library knows them too."""

from sublet.operate.rules.stack_names import consumer_stack, pipeline_stack

__all__ = ["consumer_stack", "pipeline_stack"]
