"""How people and programs reach the stages: the runtime, the command, the renderers."""
