"""Made-up price series of a spot market, the same for the same seed.

The model: the market is in turns calm and lively, for times drawn from exponential distributions. While it is calm the
price stays where it is. While it is lively, each minute, the logarithm of the price reverts to its mean, with normal
noise (the Ornstein-Uhlenbeck process in steps; Vasicek 1977), and sometimes jumps up by an exponentially distributed
amount (as in jump diffusions; Kou 2002). The price has a floor, as the markets of 2017 had, and no bidder pays more
than the price of a machine that is not taken away.

The constants were fitted so that `qoop.adaptive.profiles.spot.bid` makes of it what the paper reports of its series
(paper section 6). Over the seeds 0 to 199, mean and standard deviation:

=========================  ============  ==================
figure of five hours       here          paper's one series
=========================  ============  ==================
least and most machines    2, 20         2, 20
events of 10 %             63.7 ± 10.4   60
events of 15 %             50.0 ± 8.8    53
events of 20 %             42.5 ± 8.3    40
highest price, $/h         0.57 ± 0.06   0.58
hour of the highest price  2.4 ± 1.5     near 3
low regions, of 30         4.8 ± 2.8     not given
medium regions             4.9 ± 2.2     not given
high regions               20.3 ± 3.1    not given
=========================  ============  ==================
"""

from __future__ import annotations

import math
import random

from qoop.adaptive.profiles.prices import Prices
from qoop.catalog.value import value

FIVE_HOURS = 18_000.0
_MINUTE = 60.0


@value
class Market:
    """Dollars an hour, and minutes. The defaults are those of a machine such as i3.2xlarge in 2017.

    mean: what a lively price reverts to, by the part `reversion` of the distance (of logarithms) each minute; noise:
    standard deviation of its logarithm, a minute; jumps: how many a minute; jump: their mean, of the logarithm.
    calm, lively: how many minutes the market is, in the mean.
    """

    floor: float = 0.25
    ceiling: float = 0.624
    mean: float = 0.28
    reversion: float = 0.3
    noise: float = 0.1
    jumps: float = 0.1
    jump: float = 0.2
    calm: float = 10.0
    lively: float = 20.0


I3_2XLARGE = Market()


def prices(seed: int, market: Market = I3_2XLARGE, seconds: float = FIVE_HOURS) -> Prices:
    """A price a minute for so long.

    >>> series = prices(1)
    >>> series == prices(1), series == prices(2), 0.25 <= series.at(7200) <= series.peak <= 0.624
    (True, False, True)
    """
    chance = random.Random(seed)
    lively = chance.random() < market.lively / (market.lively + market.calm)
    above, steps = 0.0, []
    for minute in range(max(1, math.ceil(seconds / _MINUTE))):
        if chance.random() < 1 / (market.lively if lively else market.calm):
            lively = not lively
        if lively:
            above += _moved(above, market, chance)
        price = market.mean * math.exp(above)
        steps.append((minute * _MINUTE, min(market.ceiling, max(market.floor, price))))
    return Prices(tuple(steps), seconds)


def _moved(above: float, market: Market, chance: random.Random) -> float:
    """By how much the logarithm moves in a lively minute."""
    jump = chance.expovariate(1 / market.jump) if chance.random() < market.jumps else 0.0
    return chance.gauss(0.0, market.noise) - market.reversion * above + jump
