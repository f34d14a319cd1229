"""The steps of a query; `langchain_rse.query.pipeline` runs them in order."""
