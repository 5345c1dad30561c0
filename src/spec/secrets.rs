//! Keys that must not be in a suite, and must not be shown where they are.

use std::sync::LazyLock;

use regex::Regex;

/// Stands for a secret in shown text.
pub const MASK: &str = "••••";

/// Prefixes of vendors' keys, and bearer tokens. Long runs only, so that prose such as `sk-learn` is left alone.
#[allow(clippy::unwrap_used)] // A constant pattern; a test compiles it.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)\b(?:sk|pk|rk|xai|gsk|hf|pplx|csk|nvapi|r8|fw|ghp|gho|github_pat|glpat|xox[abp])[-_][A-Za-z0-9_-]{16,}
        | \bAIza[A-Za-z0-9_-]{30,} | \bAKIA[A-Z0-9]{16}\b | \bey[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?
        | (?i:\bbearer)\s+[A-Za-z0-9._~+/-]{12,}=*",
    )
    .unwrap()
});

/// Names of headers and query parameters whose value is a credential.
const CREDENTIAL_NAMES: [&str; 14] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "api_key",
    "apikey",
    "x-goog-api-key",
    "key",
    "token",
    "access_token",
    "x-auth-token",
    "cookie",
    "secret",
    "password",
];

/// Whether a header or query parameter of this name carries a credential.
pub fn names_credential(name: &str) -> bool {
    CREDENTIAL_NAMES.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether the text holds what looks like a key.
pub fn looks_secret(text: &str) -> bool {
    KEY.is_match(text)
}

/// The line with whatever looks like a key replaced.
pub fn mask_line(line: &str) -> String {
    KEY.replace_all(line, MASK).into_owned()
}

/// The line with `len` characters from the 0-based character `from` replaced, and other keys too.
pub fn mask_range(line: &str, from: usize, len: usize) -> String {
    let before: String = line.chars().take(from).collect();
    let after: String = line.chars().skip(from + len).collect();
    format!("{before}{MASK}{}", mask_line(&after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_seen_and_prose_is_not() {
        let key = format!("sk-{}", "a1".repeat(12));
        assert!(looks_secret(&key));
        assert!(looks_secret(&format!("Bearer {}", "x".repeat(20))));
        for prose in ["sk-learn", "the bearer of news", "token-level", "${env:OPENAI_API_KEY}", "hf_model"] {
            assert!(!looks_secret(prose), "{prose}");
        }
        assert_eq!(mask_line(&format!("api: {key}, x: 1")), format!("api: {MASK}, x: 1"));
    }

    #[test]
    fn a_range_is_masked_by_characters() {
        assert_eq!(mask_range("ü: geheim # x", 3, 6), format!("ü: {MASK} # x"));
    }
}
