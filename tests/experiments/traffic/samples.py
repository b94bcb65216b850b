"""Settings that the tests share."""

from remuda.experiments.traffic import Setting

# Numbers that are easy to check by hand.
SMALL = Setting(
    generator_size=700,
    discriminator_size=300,
    image_size=5,
    num_images=400,
    num_workers=4,
    batch_size=10,
    num_fake_batches=2,
    epochs=2,
    iterations=100,
)

# Table IV: 11.2 and 6.34 MiB of parameters, ten workers with 5,000 images of CIFAR-10 each,
# k = floor(log2 10).
CIFAR = Setting(
    generator_size=2_932_611,
    discriminator_size=1_663_243,
    image_size=3 * 32 * 32,
    num_images=50_000,
    num_fake_batches=3,
)
