"""From documents to chunks in both stores, one document step by step."""
