"""The meaning of numbers where several rows belong to one person, and the choice between the two."""

from __future__ import annotations

from fisherleak.auditing.report_summary import Summary
from fisherleak.report.wording.words import WORDS, Word

__all__ = ["OF_PEOPLE", "words_for"]

OF_PEOPLE = {
    "eta_row": Word(
        "η of a person",
        "All columns and labels of all rows of one person, taken together. The attacker knows the rows of everyone else, and "
        "how many this person has. Numbers count in standard deviations of their column, categories by their indicators. A "
        "value that several of these rows have counts as one value. 1/η is the least error for the combination of these "
        "values (of length 1) that the release reveals most. No single row of the person has a larger η.",
    ),
    "row": Word(
        "person",
        "The person's name in the column that says whose rows they are, with the number of rows in brackets. The page "
        "shows values only where that was asked for.",
    ),
    "cell": Word(
        "largest, mean and median η of a person's values",
        "η of this column alone in all rows of a person together, per unit of the column: the largest, the average and the "
        "median over people. A value that several of the rows have counts as one. The attacker knows everything else.",
    ),
    "exposure": Word(
        "exposure of a person's values in a column",
        "η of one column in all rows of one person together, times the spread of the column, so that columns in different "
        "units can be compared. For a category, or a column without a spread, it is η itself.",
    ),
    "eta_label": Word(
        "η of the label",
        "The labels (the target) of all rows of a person together. The attacker knows everything else.",
    ),
    "error_least": Word(
        "least error",
        "1/η of the most exposed person, in the column's own unit. No unbiased attacker has a smaller standard deviation for "
        "the combination of the person's values in this column (of length 1) that is revealed most.",
    ),
    "error_typical": Word(
        "typical least error",
        "1/η of the median person: for half of the people the least error of an unbiased attacker is larger.",
    ),
    "eta_max": Word("η of the most exposed person", "The largest η of any person: nobody is more exposed."),
    "eta_mean": Word(
        "mean η", "The average of the people's η. It hides the worst: read it with the largest and the spread."
    ),
    "eta_spread": Word(
        "spread of η",
        "The standard deviation of the people's η: how unequally they are exposed, also because some have more rows.",
    ),
    "eta_median": Word("median η", "Half of the people have a smaller η, half a larger one."),
    "eta_least": Word("smallest η", "The η of the person whom the release reveals least."),
    "eta_quantiles": Word(
        "5 % and 95 % quantiles",
        "One person in twenty has an η below the first, and one in twenty an η above the second.",
    ),
    "closest": Word(
        "closest column",
        "The numeric column with the smallest least error over all rows of this person, in spreads of the column.",
    ),
    "group_mean": Word(
        "mean, spread and largest η in a group",
        "Over the people of the group. Where the means differ, the people of one group are more exposed than those of "
        "another.",
    ),
    "attack": Word(
        "attack accuracy",
        "How often an attacker correctly guesses the value that all rows of a person have, from the release and everything "
        "else, on average over the noise. The interval covers the true figure with 95 % confidence. Compare it with the "
        "baseline and not with zero. Stronger attackers than those tried may exist.",
    ),
    "attack_people": Word(
        "attacks on people",
        "How often the attacker guesses a person's value correctly, over draws of the noise: the most exposed person, the 95 "
        "% quantile of people, and the median person. The last column counts people who are guessed correctly at least nine "
        "times in ten. An average hides them. Attackers who see no release have no such figures.",
    ),
    "distinguishable": Word(
        "telling two values apart",
        "Compare two releases: one with the person's own value in all rows, and one with the value that would move the model "
        "most. Both distributions are known, and no test between them is correct more often than this, whatever it computes. "
        "The moves are exact. Tried for some people, drawn at random, and for the one with the largest η in the column.",
    ),
    "membership": Word(
        "membership",
        "Whether someone was in the data at all, with all rows. The attacker knows all rows of everyone else and those of the "
        "person in question, and sees the release. Both answers are equally likely, so chance is 50 %. No attacker is correct "
        "more often than this. This holds if the release does not show the exact number of rows: an attacker who knows all "
        "others could count.",
    ),
    "membership_auc": Word(
        "AUC",
        "How often the best attacker ranks a release with the person's rows above one without them: chance is a half, one is "
        "certain.",
    ),
    "balance": Word(
        "equalising (IRFIL)",
        "Iteratively reweighted Fisher information loss: people with a large η get a smaller weight on all their rows and the "
        "model is fitted again, until all have about the same η. This η takes the weights as fixed, but they depend on the "
        "data too. So the whole procedure may reveal more about some people than about others.",
    ),
    "gate": Word(
        "limit",
        "The η that no person may exceed, as declared by those who ran the audit. There is no value that is safe in general.",
    ),
}
"""What changes where all rows of a person are one set."""


def words_for(summary: Summary) -> dict[str, Word]:
    """The meaning of every number, for rows or for people."""
    return WORDS if summary.data.people is None else WORDS | OF_PEOPLE
