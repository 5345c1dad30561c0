//! `JUnit` XML: one test case for each gate and candidate, for CI systems that show test results.
//!
//! pass → nothing; fail → `<failure type="fail">`; inconclusive → `<failure type="inconclusive">`, as nothing was shown
//! that would allow to ship; not evaluable → `<error>`; an advisory gate never fails a build: what it says stands in
//! `<skipped>`. An invalid run is an `<error>` of its own.

use std::fmt::Write as _;

use crate::analyze::Summary;
use crate::analyze::summary::{GateResult, GateVerdict, RunVerdict};

use super::text::{escaped, visible};
use super::words;

pub fn junit(summary: &Summary) -> String {
    let invalid = summary.verdict == RunVerdict::Invalid;
    let decisive = summary.gates.iter().filter(|gate| !gate.advisory);
    let failures =
        decisive.clone().filter(|gate| matches!(gate.verdict, GateVerdict::Fail | GateVerdict::Inconclusive)).count();
    let errors = decisive.filter(|gate| gate.verdict == GateVerdict::NotEvaluable).count() + usize::from(invalid);
    let skipped = summary.gates.iter().filter(|gate| gate.advisory && gate.verdict != GateVerdict::Pass).count();
    let tests = summary.gates.len() + usize::from(invalid);
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"");
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"counterpoise\" {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"{}\" {counts}>", attribute(&summary.suite));
    properties(&mut out, summary);
    if invalid {
        let class = attribute(&summary.suite);
        let _ = writeln!(out, "    <testcase classname=\"{class}\" name=\"the run is valid\">");
        let _ =
            writeln!(out, "      <error type=\"invalid\" message=\"{}\"/>", attribute(&super::view::sentence(summary)));
        out.push_str("    </testcase>\n");
    }
    for gate in &summary.gates {
        case(&mut out, gate, &summary.suite);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn properties(out: &mut String, summary: &Summary) {
    let run = &summary.run;
    out.push_str("    <properties>\n");
    for (name, value) in [
        ("verdict", words::verdict_name(summary.verdict)),
        ("suite_hash", run.suite_hash.as_str()),
        ("seed", &run.seed.to_string()),
        ("harness_version", run.harness_version.as_str()),
        ("simulated", if run.simulated { "true" } else { "false" }),
        ("complete", if run.complete { "true" } else { "false" }),
    ] {
        let _ = writeln!(out, "      <property name=\"{name}\" value=\"{}\"/>", attribute(value));
    }
    out.push_str("    </properties>\n");
}

fn case(out: &mut String, gate: &GateResult, suite: &str) {
    let scope = if gate.scope == "all" { String::new() } else { format!(" ({})", gate.scope) };
    let advisory = if gate.advisory { " [advisory]" } else { "" };
    let name = attribute(&format!("{}{scope}{advisory}", gate.gate));
    let class = attribute(&format!("{suite}.{}", gate.arm));
    let message = attribute(&format!("{}; {}", gate.reason, words::gate_numbers(gate)));
    let _ = write!(out, "    <testcase classname=\"{class}\" name=\"{name}\"");
    let (element, kind) = match (gate.advisory, gate.verdict) {
        (_, GateVerdict::Pass) => {
            let numbers = escaped(&visible(&words::gate_numbers(gate)));
            let _ = writeln!(out, ">\n      <system-out>{numbers}</system-out>\n    </testcase>");
            return;
        }
        (true, verdict) => {
            let said = words::gate_verdict(verdict);
            let _ = writeln!(out, ">\n      <skipped message=\"advisory, {said}: {message}\"/>\n    </testcase>");
            return;
        }
        (false, GateVerdict::Fail) => ("failure", "fail"),
        (false, GateVerdict::Inconclusive) => ("failure", "inconclusive"),
        (false, GateVerdict::NotEvaluable) => ("error", "not_evaluable"),
    };
    let _ = writeln!(out, ">\n      <{element} type=\"{kind}\" message=\"{message}\"/>\n    </testcase>");
}

/// Text for an attribute: control characters shown, as XML 1.0 can't hold them even as references.
fn attribute(text: &str) -> String {
    escaped(&super::text::one_line(text))
}
