"""From a query to segments, step by step."""
