"""TPC-DS as an application of the rest: data, queries, oracle, benchmark, report."""
