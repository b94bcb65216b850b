"""Check whether cuBLAS multiplies batches of bf16 matrices correctly on this GPU.

    python benchmarks/cublas.py
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=65 python benchmarks/cublas.py    # while MPS is running

The result of each product is filled with NaN first, so that numbers which cuBLAS does not write
stay visible. The exit status is 1 if a product is wrong.
"""

import sys

import torch

# (members, rows, inner, columns) of products in the programs of ten members, with batches of 100;
# "t" marks a matrix that is stored transposed.
PRODUCTS = [
    (10, 6400, 128, 1024, " t"),
    (10, 25600, 128, 512, "tt"),
    (10, 102400, 64, 32, "tt"),
    (10, 102400, 32, 64, "  "),
    (10, 400, 576, 128, " t"),
    (10, 576, 400, 128, "tt"),
    (10, 1600, 1152, 256, " t"),
    (10, 400, 2304, 512, " t"),
    (10, 400, 512, 2304, "  "),
    (10, 100, 100, 8192, " t"),
    (10, 1600, 288, 64, "  "),
]
TOLERANCE = 0.2  # of the mean absolute result; rounding to bf16 changes about 0.01


def matrix(members: int, rows: int, columns: int, stored: str) -> torch.Tensor:
    """Return random matrices, stored by rows or, with "t", by columns."""
    if stored == "t":
        return matrix(members, columns, rows, " ").mT
    return torch.randn(members, rows, columns, device="cuda").bfloat16()


def main() -> None:
    """Check all products, and print the wrong ones."""
    num_wrong = 0
    for members, rows, inner, columns, stored in PRODUCTS:
        a, b = matrix(members, rows, inner, stored[0]), matrix(members, inner, columns, stored[1])
        expected = torch.bmm(a.float(), b.float())
        result = torch.full_like(expected, torch.nan, dtype=torch.bfloat16)
        torch.bmm(a, b, out=result)
        num_missing = int(result.isnan().sum())
        error = (result.float() - expected).abs().max() / expected.abs().mean()
        if num_missing or error > TOLERANCE:
            num_wrong += 1
            shape = f"{members} x ({rows}, {inner}) @ ({inner}, {columns})"
            print(f"wrong: {shape}: {num_missing:,} of {result.numel():,} numbers are missing")
    properties = torch.cuda.get_device_properties(0)
    print(
        f"{num_wrong} of {len(PRODUCTS)} products are wrong; {properties.name}, "
        f"{properties.multi_processor_count} multiprocessors, CUDA {torch.version.cuda}"
    )
    sys.exit(num_wrong > 0)


if __name__ == "__main__":
    main()
