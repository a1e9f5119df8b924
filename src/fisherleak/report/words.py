"""The meaning of every number that the report shows: what its "what is this?" opens.

``WORDS`` is the one place where a number is explained; ``OF_PEOPLE`` says what changes where several rows belong to one person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fisherleak.auditing.report_summary import Summary


@dataclass(frozen=True)
class Word:
    """A term and its meaning, in plain words with its assumptions."""

    name: str
    meaning: str


STANDARD_UNITS = (
    "Numbers count in standard deviations of their column or, with declared bounds, in units of their width divided by "
    "√12."
)
RAW_UNITS = "Numbers count in the units of their columns, so these units decide which rows are most exposed."

WORDS: dict[str, Word] = {
    "eta": Word(
        "eta (η), Fisher information loss",
        "How much the released parameters say about some values in the training data. If an unbiased attacker knows "
        "everything else, the standard deviation of the attacker's estimate is at least 1/η. Twice the η means half the error. "
        "At η = 0 the release says nothing about the values. No η is safe in general: you decide which error is large enough.",
    ),
    "eta_row": Word(
        "η of a row",
        f"All columns of one row and its label, taken together. {STANDARD_UNITS} Categories count by their indicators. "
        "Take the combination of these values (of length 1) that the release reveals most: no unbiased estimate of it has an "
        "error below 1/η. Compare η between rows, not between data sets. For an error in years or kilograms see the single "
        "columns.",
    ),
    "eta_dataset": Word(
        "η of the data set",
        "All columns and labels of all rows, taken together. It is about the combination of all values that the release "
        "reveals most, so no row, column or group has a larger η. It grows with the number of rows.",
    ),
    "eta_max": Word("η of the most exposed row", "The largest η of any row: no row is more exposed."),
    "eta_mean": Word(
        "mean η", "The average of the rows' η. It hides the worst rows: read it with the largest and the spread."
    ),
    "eta_spread": Word(
        "spread of η",
        "The standard deviation of the rows' η: how unequally rows are exposed. It is zero if every row is "
        "equally exposed.",
    ),
    "eta_median": Word("median η", "Half of the rows have a smaller η, half a larger one."),
    "eta_least": Word("smallest η", "The η of the row that the release reveals least."),
    "eta_quantiles": Word(
        "5 % and 95 % quantiles",
        "One row in twenty has an η below the first, and one in twenty an η above the second.",
    ),
    "eta_label": Word(
        "η of the label",
        "The row's label (its target) alone. The attacker knows everything else. For a class it is the η of the number that "
        "encodes it, not the chance of guessing it.",
    ),
    "row": Word(
        "row",
        "The row's number in the table that was read, counted from 1, or its id where an id column was named. The page shows "
        "values only where that was asked for.",
    ),
    "closest": Word(
        "closest column",
        "The numeric column of this row whose least error is smallest, divided by the column's spread.",
    ),
    "exposure": Word(
        "exposure of a cell",
        "η of one column in one row, times the spread of the column, so that columns in different units can be compared. "
        "1 means that the least error is as large as the column's own spread; 10 means a tenth of it. For a category, or a "
        "column without a spread, it is η itself.",
    ),
    "eta_column": Word(
        "η of a column",
        "The values of one column in all rows, taken together, per unit of the column. It is never below the η of a single "
        "cell of the column.",
    ),
    "cell": Word(
        "largest, mean and median η of a cell",
        "η of this column alone in each row, per unit of the column: the largest, the average and the median over rows. The "
        "attacker knows everything else.",
    ),
    "error_least": Word(
        "least error",
        "1/η of the most exposed row: no unbiased attacker has a smaller standard deviation for this column in any row, in "
        "the column's own unit. A biased guess can have a smaller error: the column's mean, for example, is off by about the "
        "spread.",
    ),
    "error_typical": Word(
        "typical least error",
        "1/η of the median row: for half of the rows the least error of an unbiased attacker is larger.",
    ),
    "spread": Word(
        "spread of a column",
        "The standard deviation of its values in the data, in its own unit: about the error of someone who guesses the mean "
        "without looking at the release.",
    ),
    "revealed": Word(
        "share of a value revealed",
        "At most this part of the variance of a number is revealed, on average, to an attacker who knows everything else, "
        "from 0 to 100 % for every column and unit. Beforehand the attacker believes that the value is normal, around the "
        "column's mean, with spread s. η̄² is the mean of η² over that belief; the model is fitted again for each value. The "
        "share is (η̄ s)² / (1 + (η̄ s)²), by van Trees' inequality. At 50 % the release reveals as much as the attacker knew "
        "before. Categories have no such share: see the attacks on them.",
    ),
    "revealed_high": Word(
        "95 % and median",
        "For 95 % of the rows at most the first figure is revealed; for half of the rows, at most the second.",
    ),
    "revealed_spread": Word(
        "spread before the release",
        "How unsure someone is about the value before they see the release, as a standard deviation: the column's own spread, "
        "unless the audit was given another. A smaller one means that they know more, and that the release adds less.",
    ),
    "group_joint": Word(
        "joint η of a group",
        "All values of all rows of the group, taken together. It grows with the group's size. To compare single rows of "
        "groups, compare the means.",
    ),
    "group_mean": Word(
        "mean, spread and largest η in a group",
        "Over the rows of the group. Where the means differ, the rows of one group are more exposed than those of "
        "another.",
    ),
    "sigma": Word(
        "sigma (σ), the scale of the noise",
        "The size of the noise on each released parameter, per standard deviation of its column. If the noise is Gaussian, "
        "it is the standard deviation. Every η is exactly proportional to 1/σ: twice the noise, half the η, twice the "
        "least error.",
    ),
    "utility": Word(
        "utility",
        "How well the released model predicts: the average over draws of the noise, and the range of nine draws in ten. "
        "Between the noise scales that were tried it is interpolated, linearly in the logarithm of σ.",
    ),
    "without_noise": Word("without noise", "The utility of the model as it was fitted, before noise is added."),
    "utility_baseline": Word(
        "baseline",
        "The utility of always predicting the same: the majority, or the mean. A release that is no better is of no use.",
    ),
    "attack": Word(
        "attack accuracy",
        "How often an attacker guesses the column's value correctly from the release and everything else in the row, on "
        "average over the noise. The interval covers the true figure with 95 % confidence. Compare it with the baseline "
        "and not with zero. Stronger attackers than those tried may exist.",
    ),
    "baseline": Word(
        "baseline",
        "The accuracy of guessing from how common each value is, without the release and without the row's other columns. An "
        "attacker gains from the release only what lies above this, and above the attacker “no model, other columns”, who "
        "sees no release.",
    ),
    "attack_people": Word(
        "attacks on single rows",
        "How often the attacker guesses a row correctly, over draws of the noise: the most exposed row, the 95 % quantile of "
        "rows, and the median row. The last column counts rows that are guessed correctly at least nine times in ten. An "
        "average hides these rows. Attackers who see no release have no such figures.",
    ),
    "distinguishable": Word(
        "telling two values apart",
        "Compare two releases: one with the row's own value, and one with the value that would move the model most. Both "
        "distributions are known, and no test between them is correct more often than this, whatever it computes. The moves "
        "are exact. Tried for some rows, drawn at random, and for the row with the largest η in the column.",
    ),
    "hcr": Word(
        "least error between two values",
        "Call the two values 0 and 1. No unbiased estimate of which one it is has a smaller standard deviation, for any row: "
        "the bound of Hammersley, Chapman and Robbins, from the chi-square divergence of the two releases.",
    ),
    "membership": Word(
        "membership",
        "Whether someone's record was in the data at all. The attacker knows all other records and the one in question, and "
        "sees the release. Both answers are equally likely: chance is 50 %. No attacker is correct more often than this. This "
        "holds if the release does not show the exact number of rows: an attacker who knows all others could count.",
    ),
    "membership_found": Word(
        "found at 1 % false alarms",
        "The share of members that the best attacker finds if 1 in 100 of the others may be named by mistake. Without the "
        "release it is 1 %.",
    ),
    "membership_auc": Word(
        "AUC",
        "How often the best attacker ranks a release with the record above one without it: chance is a half, one is certain.",
    ),
    "balance": Word(
        "equalising (IRFIL)",
        "Iteratively reweighted Fisher information loss: rows with a large η get a smaller weight and the model is fitted "
        "again, until all rows have about the same η. This η takes the weights as fixed, but they depend on the data too. So "
        "the whole procedure may reveal more about some rows than about others.",
    ),
    "gate": Word(
        "limit",
        "The η that no row may exceed, as declared by those who ran the audit. There is no value that is safe in general.",
    ),
    "policy": Word(
        "policy",
        "A file of rules, from those who are responsible for the data. A rule about something that was not measured fails. The "
        "release passes if every rule passes.",
    ),
    "rows_used": Word(
        "rows",
        "Rows that were read, without those that were dropped. The model is fitted on the training rows, whose exposure is "
        "measured. The others are held out to measure utility.",
    ),
    "l2": Word(
        "l2",
        "The strength of the penalty on large coefficients, per row. It is taken as public. A stronger penalty makes "
        "each row matter less.",
    ),
    "parameters": Word(
        "parameters", "How many numbers are released: the coefficients, and the intercept if there is one."
    ),
    "gradient": Word(
        "gradient",
        "The largest component of the gradient where the fit stopped, relative to the sizes of its terms. Zero at an exact "
        "minimum; η is defined at the minimum only.",
    ),
    "distance": Word(
        "distance from the minimum",
        "How far the fit is from the exact minimum, relative to the size of the model. It is about the relative error of "
        "every η on this page.",
    ),
    "condition": Word(
        "condition number",
        "How close the columns are to being redundant, after scaling. 1 is the best; with 10ᵏ about k of 16 digits are "
        "lost.",
    ),
    "steps": Word("steps", "Newton steps that the fit took."),
    "finite_difference": Word(
        "spot check by refitting",
        "For a few rows we changed a value a little and fitted the model again. This is the largest difference between the "
        "change of the parameters and what the formula says, relative to η.",
    ),
    "seconds": Word("seconds", "How long each step of the audit took."),
    "seed": Word(
        "seed",
        "Where this audit's random numbers start, for the split and the draws of noise in the utility curve. The same seed, "
        "data and versions give the same numbers again.",
    ),
    "sha256": Word(
        "data hash (SHA-256)",
        "A fingerprint of the file that was read: the same bytes give the same fingerprint, and any change gives another.",
    ),
}


OF_PEOPLE = {
    "eta_row": Word(
        "η of a person",
        "All columns and labels of all rows of one person, taken together. The attacker knows the rows of everyone else, and "
        f"how many this person has. {STANDARD_UNITS} Categories count by their indicators. A value that several of these rows "
        "have counts as one value. Take the combination of these values (of length 1) that the release reveals most: no "
        "unbiased estimate of it has an error below 1/η. No single row of the person has a larger η.",
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
        "The numeric column whose least error over all rows of this person is smallest, divided by the column's spread.",
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
    """The meaning of every number, for rows or for people, in the units of the columns or in standard ones."""
    words = WORDS if summary.data.people is None else WORDS | OF_PEOPLE
    if not summary.raw_units:
        return words
    row = words["eta_row"]
    return words | {"eta_row": replace(row, meaning=row.meaning.replace(STANDARD_UNITS, RAW_UNITS))}
