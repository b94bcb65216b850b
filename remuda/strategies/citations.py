"""List the papers to cite for each strategy."""

_SCALABLE = (
    'M. Lupo Pasini, V. Gabbi, J. Yin, S. Perotto, N. Laanait: "Scalable balanced training of '
    'conditional generative adversarial neural networks on image data", 2021'
)
_STABLE = (
    'M. Lupo Pasini, J. Yin: "Stable parallel training of Wasserstein conditional generative '
    'adversarial neural networks"'
)
_MD_GAN = (
    'C. Hardy, E. Le Merrer, B. Sericola: "MD-GAN: Multi-Discriminator Generative Adversarial '
    'Networks for Distributed Datasets", IPDPS 2019'
)
_CELLULAR = (
    "E. Perez, S. Nesmachnow, J. Toutouh, E. Hemberg, U. O'Reilly: \"Parallel/distributed "
    'implementation of cellular training for generative adversarial neural networks", 2020'
)
_STALENESS = (
    'W. Zhang, S. Gupta, X. Lian, J. Liu: "Staleness-aware async-SGD for distributed deep '
    'learning", IJCAI 2016'
)
_AVERAGING = (
    'H. B. McMahan et al.: "Federated learning of deep networks using model averaging", 2016'
)

# By the name of the strategy; a strategy that is not listed has none.
CITATIONS = {
    "standalone": (_SCALABLE,),
    "class-parallel": (_SCALABLE, _STABLE),
    "cellular": (_CELLULAR,),
    "cellular-async": (_CELLULAR,),
    "md-gan": (_MD_GAN,),
    "md-gan-async": (_MD_GAN, _STALENESS),
    "fl-gan": (_MD_GAN, _AVERAGING),
}
