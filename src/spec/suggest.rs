//! "Did you mean": the nearest of the names that are allowed.

/// The allowed name nearest to `word`, if it is near enough to be what was meant.
pub fn nearest<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const SHORTEST_PREFIX: usize = 3;
    // Long words are hostile or no typo; the distance is quadratic.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let same = |a: &str| a.replace(['-', ' '], "_") == word.replace(['-', ' '], "_");
    let allowed: Vec<&str> = allowed.into_iter().collect();
    let begins = |name: &&&str| word.len() >= SHORTEST_PREFIX && name.to_lowercase().starts_with(&word);
    let starts_with = allowed.iter().find(begins).copied();
    let scored = allowed.iter().copied().map(|name| {
        let lower = name.to_lowercase();
        let distance = if same(&lower) { 0 } else { strsim::osa_distance(&word, &lower) };
        (distance, name)
    });
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    if distance > 2
        && let Some(longer) = starts_with
    {
        return Some(longer);
    }
    let tolerated = (name.chars().count().max(word.chars().count()) / 3).max(1);
    (distance <= tolerated).then_some(name)
}

/// The hint to a wrong name.
pub fn did_you_mean<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, allowed).map(|name| format!("did you mean `{name}`?"))
}

/// The help line that lists what is allowed.
pub fn list<'a>(allowed: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 30;
    let mut names: Vec<&str> = allowed.into_iter().collect();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let mut line = names.join(", ");
    if more > 0 {
        line.push_str(" and ");
        line.push_str(&more.to_string());
        line.push_str(" more");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let keys = ["prompt", "system", "graders", "name"];
        assert_eq!(nearest("promt", keys), Some("prompt"));
        assert_eq!(nearest("grader", keys), Some("graders"));
        assert_eq!(nearest("as-is", ["as_is", "cold"]), Some("as_is"));
        assert_eq!(nearest("base", ["other", "baseline"]), Some("baseline"));
        assert_eq!(nearest("quantum", keys), None);
        assert_eq!(nearest("x", ["y_long"]), None);
    }
}
