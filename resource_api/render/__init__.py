"""Plans, reports, resources, types, state as text, JSON, YAML, graphs: the only place that escapes and redacts."""
