"""Several annotators: what their answers come to, how far each can be trusted, how far they agree. Pure."""

from ncalr.votes.agreement import Agreement, cohen, cohen_pairs, fleiss, krippendorff
from ncalr.votes.answers import NO_ANSWER, Votes
from ncalr.votes.bayes import bayes, gains, likeliest_temperature
from ncalr.votes.consensus import Annotator, Consensus
from ncalr.votes.crowdlab import crowdlab, doubts
from ncalr.votes.dawid_skene import dawid_skene
from ncalr.votes.glad import glad
from ncalr.votes.information import jeffreys
from ncalr.votes.majority import majority
from ncalr.votes.methods import METHODS, aggregate
from ncalr.votes.model import fit_temperature, tempered
from ncalr.votes.one_coin import one_coin

__all__ = [
    "METHODS",
    "NO_ANSWER",
    "Agreement",
    "Annotator",
    "Consensus",
    "Votes",
    "aggregate",
    "bayes",
    "cohen",
    "cohen_pairs",
    "crowdlab",
    "dawid_skene",
    "doubts",
    "fit_temperature",
    "fleiss",
    "gains",
    "glad",
    "jeffreys",
    "krippendorff",
    "likeliest_temperature",
    "majority",
    "one_coin",
    "tempered",
]
