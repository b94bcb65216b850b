"""Define the matrix product that yields the gradient of a convolution's weights."""

import triton
import triton.language as tl


@triton.jit
def weight_product(
    x,
    g,
    result,
    products,  # members times groups
    images,
    length,  # pixels of g that one program adds up
    G: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Add up one part of the pixels, for one block of a group's (tap, in) x (out) matrix."""
    TERMS: tl.constexpr = G.size * G.size * G.depth
    NUM_BLOCKS: tl.constexpr = (TERMS + BLOCK_R - 1) // BLOCK_R
    product = tl.program_id(2).to(tl.int64)
    member = product // G.groups
    group = product % G.groups
    part = tl.program_id(1)
    x += member * images * (G.height * G.width * G.depth * G.groups) + group * G.depth
    g += member * images * (G.out_height * G.out_width * G.channels * G.groups) + group * G.channels
    result += (part * products + product) * (TERMS * G.channels)
    first = tl.program_id(0) % NUM_BLOCKS * BLOCK_R
    channel = tl.program_id(0) // NUM_BLOCKS * BLOCK_N + tl.arange(0, BLOCK_N)
    is_channel = (channel < G.channels)[None, :]
    total = tl.zeros((BLOCK_R, BLOCK_N), dtype=tl.float32)
    end = tl.minimum((part + 1) * length, images * (G.out_height * G.out_width))
    for start in range(part * length, end, BLOCK_P):
        pixel = start + tl.arange(0, BLOCK_P)
        a = _patches(x, pixel, end, first, G, BLOCK_R)
        places = pixel[:, None] * (G.channels * G.groups) + channel[None, :]
        b = tl.load(g + places, mask=(pixel < end)[:, None] & is_channel, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    term = first + tl.arange(0, BLOCK_R)
    # (out, in, tap), the order of a layer's parameters
    places = term % G.depth * (G.size * G.size) + term // G.depth
    target = channel[None, :] * TERMS + places[:, None]
    mask = (term < TERMS)[:, None] & is_channel
    tl.store(result + target, total.to(result.dtype.element_ty), mask=mask)


@triton.jit
def _patches(x, pixel, end, first, G: tl.constexpr, BLOCK_R: tl.constexpr):
    """Read the inputs that some taps pair with pixels, with zeros outside of the image."""
    term = first + tl.arange(0, BLOCK_R)
    if G.depth % BLOCK_R == 0:  # the whole block belongs to one tap
        tap = first // G.depth
        depth = (tl.multiple_of(first % G.depth, BLOCK_R) + tl.arange(0, BLOCK_R))[:, None]
    else:
        tap = (term // G.depth)[:, None]
        depth = (term % G.depth)[:, None]
    image = (pixel // (G.out_height * G.out_width))[None, :]
    row = (pixel // G.out_width % G.out_height * G.stride)[None, :] + (tap // G.size - G.padding)
    column = (pixel % G.out_width * G.stride)[None, :] + (tap % G.size - G.padding)
    inside = (row >= 0) & (row < G.height) & (column >= 0) & (column < G.width)
    inside = inside & (pixel < end)[None, :] & (term < G.size * G.size * G.depth)[:, None]
    place = (image * G.height + row) * G.width + column
    return tl.load(x + place * (G.depth * G.groups) + depth, mask=inside, other=0.0)
