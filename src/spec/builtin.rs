//! Suites and datasets that travel inside the program, so that it works without the repository.

/// A file by its path in the repository.
pub struct Embedded {
    pub path: &'static str,
    pub bytes: &'static [u8],
}

macro_rules! embed {
    ($($path:literal),* $(,)?) => {
        &[$(Embedded { path: $path, bytes: include_bytes!(concat!("../../", $path)) }),*]
    };
}

/// Every suite of `suites/` and every file that one of them names. `builtin:NAME` is `suites/NAME.yaml`.
static FILES: &[Embedded] = embed![
    "suites/chat-load.yaml",
    "suites/demo.yaml",
    "suites/lab-quant.yaml",
    "suites/lab-sweep.yaml",
    "suites/quant-gate.yaml",
    "suites/smoke.yaml",
    "suites/sweep.yaml",
    "fixtures/datasets/arithmetic-easy.jsonl",
    "fixtures/datasets/arithmetic.jsonl",
    "fixtures/datasets/choice.jsonl",
    "fixtures/datasets/extraction-event.jsonl",
    "fixtures/datasets/extraction-order.jsonl",
    "fixtures/datasets/extraction-person.jsonl",
    "fixtures/datasets/extraction-recipe.jsonl",
    "fixtures/datasets/extraction-weather.jsonl",
    "fixtures/datasets/facts.jsonl",
    "fixtures/datasets/passages.jsonl",
    "fixtures/datasets/schemas/event.json",
    "fixtures/datasets/schemas/order.json",
    "fixtures/datasets/schemas/person.json",
    "fixtures/datasets/schemas/recipe.json",
    "fixtures/datasets/schemas/weather.json",
];

/// An embedded file by its path, `/` between parts.
pub fn file(path: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|f| f.path == path).map(|f| f.bytes)
}

/// The names that `builtin:NAME` takes.
pub fn suite_names() -> Vec<&'static str> {
    let name = |f: &Embedded| f.path.strip_prefix("suites/")?.strip_suffix(".yaml");
    FILES.iter().filter_map(name).collect()
}

/// Paths of all embedded files, for suggestions.
pub fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|f| f.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What such a suite names is checked where it is loaded.
    #[test]
    fn every_suite_of_the_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/suites");
        let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut shipped: Vec<String> = entries.filter_map(|n| n.strip_suffix(".yaml").map(str::to_owned)).collect();
        shipped.sort();
        let mut names = suite_names();
        names.sort_unstable();
        assert_eq!(names, shipped);
        assert!(file("suites/none.yaml").is_none());
    }
}
