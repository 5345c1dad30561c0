//! What each figure of the page means, a sentence each.

use serde::Serialize;

use crate::analyze::Summary;
use crate::report::instrument;

#[derive(Serialize)]
pub struct Definition {
    pub term: &'static str,
    pub text: String,
}

const DEFINITIONS: [(&str, &str); 19] = [
    (
        "Accuracy",
        "Passed ÷ scored samples. Truncated, empty and refused answers count as failed; requests that failed for other reasons are unscored and stand apart.",
    ),
    ("Success", "Passed ÷ attempted samples: what a user gets, errors included."),
    (
        "Quality Δ",
        "Candidate − baseline over samples that both arms answered, paired, in percentage points. Repeats of a sample are averaged first.",
    ),
    (
        "Interval",
        "Two-sided 90 % unless its tooltip says otherwise: Tango’s score interval for paired pass/fail, cluster-robust t where samples repeat or cluster, Wilson’s for one rate, bootstrap over blocks for ratios, order statistics for percentiles.",
    ),
    ("~", "The interval holds “no change”. It doesn’t say that both arms are equal."),
    (
        "Quality gate",
        "Non-inferiority: passes if the lower end of Δ lies above −margin, fails if the upper end lies below it, else stays open. A pass must also hold with the candidate’s unscored samples counted as failed.",
    ),
    (
        "Flips",
        "Samples whose verdict is another on the candidate: lost (right, then wrong) and gained. Equal accuracy can hide many.",
    ),
    (
        "Twin",
        "The baseline asked a second time as an arm of its own. Its flips and ratios are what the same deployment does to itself, and no candidate can do better than that.",
    ),
    ("TTFT", "First token-bearing event − last request byte written. A role-only or empty event never counts."),
    (
        "TPOT",
        "(Last − first token) ÷ (output tokens after the first event), by the server’s own token count; absent where it can’t be known.",
    ),
    ("ITL", "Gap between single tokens; withdrawn where one event carries several."),
    ("E2E", "End of the stream − last request byte written."),
    ("Percentiles", "Of every answered measured request; shown where at least ten requests lie beyond."),
    (
        "Speed ratio",
        "Candidate ÷ baseline. Below ×1 is faster for latencies, above ×1 for throughput. The chart shows latencies turned round, as a speed-up.",
    ),
    (
        "Throughput",
        "Per second of the arm’s own windows, when it alone is under load (or its own load, where arms run together).",
    ),
    (
        "Cost per success",
        "All spend, failures and retries included, ÷ passed samples. Absent where a price or a request’s usage is unknown.",
    ),
    (
        "Error rate",
        "Requests that ended in neither an answer nor a provider’s refusal, ÷ attempted. Truncated and empty answers stand apart.",
    ),
    (
        "Token inflation",
        "Output tokens of the candidate ÷ the baseline’s over paired answers: longer answers eat a faster token rate.",
    ),
    (
        "–",
        "The figure is absent: not measured, withdrawn by a finding, or carried by too few requests. It is never zero.",
    ),
];

/// The definitions, after what this run's instrument said of itself.
pub fn definitions(summary: &Summary) -> Vec<Definition> {
    let own = instrument::sentence(summary).map(|text| Definition { term: "The instrument in this run", text });
    let fixed = DEFINITIONS.iter().map(|(term, text)| Definition { term, text: (*text).to_owned() });
    own.into_iter().chain(fixed).collect()
}
