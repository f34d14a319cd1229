"""The steps of a query: `langchain_rse.query.pipeline` says them in their order."""
