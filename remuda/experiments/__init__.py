"""Studies over runs: repeats, benchmarks, scaling, traffic, mixtures."""
