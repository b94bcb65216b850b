"""Trees of tensors, random keys and derivatives: what everything else computes with."""
