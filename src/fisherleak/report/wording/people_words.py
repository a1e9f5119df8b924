"""The meaning of numbers where several rows belong to one person, and the choice between the two."""

from __future__ import annotations

from fisherleak.auditing.report_summary import Summary
from fisherleak.report.wording.words import WORDS, Word

OF_PEOPLE = {
    "eta_row": Word(
        "η of a person",
        "Everything in all rows of one person, all columns and labels, taken together; the attacker knows the rows of everyone "
        "else, and how many this person has. 1/η is the least error for the unit combination of these values that the release "
        "reveals most, where every number counts in standard deviations of its column and every category by its indicators. A "
        "value that several rows of the person have is one value, and moves in all of them. It is never below the η of a "
        "single row of the person.",
    ),
    "row": Word(
        "person",
        "The person's name in the column that says whose rows they are, with the number of rows in brackets. The page "
        "shows values only where that was asked for.",
    ),
    "cell": Word(
        "largest, mean and median η of a person's values",
        "η of this column alone in all rows of a person together, what is the same in several of them as one value, everything "
        "else known to the attacker: the largest over people, the average and the median. Per unit of the column.",
    ),
    "exposure": Word(
        "exposure of a person's values in a column",
        "η of one column in all rows of one person together, times the spread of the column, so that columns in different "
        "units can be compared. For a category, or a column without a spread, it is η itself.",
    ),
    "eta_label": Word(
        "η of the label",
        "The labels (the target) of all rows of a person together, everything else known to the attacker.",
    ),
    "error_least": Word(
        "least error",
        "1/η of the most exposed person: no unbiased attacker has a smaller standard deviation for the unit combination of a "
        "person's values in this column that is revealed most, in the column's own unit.",
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
        "The column that is revealed most for its size over all rows of this person: the least error, divided by the column's "
        "spread, is the smallest. Numbers only.",
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
        "How often the attacker guesses correctly, over the noise: for the most exposed person, for the 95 % quantile (one "
        "person in twenty is guessed more often), and for the median person. The last column counts the people who are "
        "guessed correctly nine times in ten or more. An average hides them. Attackers who see no release have no such "
        "figures.",
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
        "model is fitted again, until all have about the same η. η is computed with the weights held fixed; the weights depend "
        "on the data too, so equal η does not mean that the whole procedure reveals as much about everyone.",
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
