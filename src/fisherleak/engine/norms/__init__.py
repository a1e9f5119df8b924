"""Largest singular values of parts of a Jacobian: may import what ``engine`` may, and no other folder.

There are three kinds: where rows share an eigenbasis, where they do not, and models of several outputs. Where values of a
column tie at what preprocessing learned, two of a kind are one for each side.
"""

from collections.abc import Sequence

from fisherleak.engine.information import Information, Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.mechanisms.interface_answers import Disclosed
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms.data_shaped import DataShaped
from fisherleak.engine.norms.matrix_free import MatrixFree
from fisherleak.engine.norms.several_outputs import SeveralOutputs
from fisherleak.engine.norms.shared_basis import SharedBasis
from fisherleak.engine.norms.two_sided import TwoSided, is_two_sided


def information_of(first: Jacobian, *others: Jacobian) -> Information:
    """The information of one release, or of several about the same data, as the kind that its structure allows.

    Releases of several outputs come by themselves.
    """
    if any(is_two_sided(each) for each in (first, *others)):
        return TwoSided.of(first, *others)
    if first.several:
        return SeveralOutputs.of(first, *others)
    if others or first.folding is not None or any(attribute.local for attribute in first.attributes):
        return MatrixFree.of(first, *others)
    return SharedBasis.of(first)


def information_together(releases: Sequence[Release]) -> Information:
    """The information of releases by common coordinates, each at its own scale; some may have noise that the rows decide."""
    if any(each.mechanism is not None for each in releases):
        return DataShaped(tuple(releases))
    return information_of(*(each.jacobian for each in releases))


def one_release(information: Information) -> Jacobian:
    """The Jacobian of a single release, of one output or of several."""
    one = len(information.fits) == 1 and not information.data_dependent
    return information.releases[0].jacobian if one else information.jacobians[0]


def every_release(information: Information) -> tuple[Jacobian, ...]:
    """The Jacobians of all releases, of one output or of several; refused where there is more to them than Jacobians."""
    return (
        information.jacobians if information.data_dependent else tuple(each.jacobian for each in information.releases)
    )


def with_other_noise(information: Information, noise: Noise | Disclosed) -> Information:
    """That of the same single release with other noise, or of a model that is known by answers."""
    return information_of(information.releases[0].jacobian.with_noise(noise))
