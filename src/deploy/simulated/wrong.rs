//! Plausible wrong answers: what a weaker model would say.

use rand_pcg::Pcg64;
use serde_json::{Map, Number, Value};

use super::answers::plain;
use super::draw::{pick, uniform};

/// A wrong answer in the right answer's form. `others`: right answers of other samples of the category.
pub fn plausible(rng: &mut Pcg64, right: &Value, others: &[&Value]) -> String {
    let said = plain(right);
    if let Some(object) = as_object(right, &said) {
        return broken_object(rng, &object);
    }
    if let Some(wrong) = near_number(rng, &said).or_else(|| other_letter(rng, &said)).or_else(|| opposite(&said)) {
        return wrong;
    }
    let acceptable = |text: &str| accepted(right).iter().any(|a| a.eq_ignore_ascii_case(text) || contains(text, a));
    let others: Vec<String> = others.iter().map(|o| plain(o)).filter(|o| !o.is_empty() && !acceptable(o)).collect();
    pick(rng, &others).cloned().unwrap_or_else(|| "I am not sure".to_owned())
}

/// Every text that a grader might accept.
fn accepted(right: &Value) -> Vec<String> {
    match right {
        Value::Array(items) => items.iter().map(plain).collect(),
        other => vec![plain(other)],
    }
}

fn contains(text: &str, answer: &str) -> bool {
    !answer.is_empty() && text.to_lowercase().contains(&answer.to_lowercase())
}

fn as_object(right: &Value, said: &str) -> Option<Map<String, Value>> {
    match right {
        Value::Object(object) => Some(object.clone()),
        _ => match serde_json::from_str(said) {
            Ok(Value::Object(object)) => Some(object),
            _ => None,
        },
    }
}

/// An object that lacks a field, or has one changed.
fn broken_object(rng: &mut Pcg64, object: &Map<String, Value>) -> String {
    let names: Vec<&String> = object.keys().collect();
    let mut broken = object.clone();
    let Some(name) = pick(rng, &names) else { return "{\"error\": true}".to_owned() };
    if uniform(rng) < 0.5 {
        broken.shift_remove(name.as_str());
    } else if let Some(value) = broken.get_mut(name.as_str()) {
        *value = match &*value {
            Value::Number(number) => changed_number(rng, number),
            Value::String(text) => Value::String(shortened(text)),
            Value::Bool(truth) => Value::Bool(!truth),
            _ => Value::Null,
        };
    }
    Value::Object(broken).to_string()
}

fn changed_number(rng: &mut Pcg64, number: &Number) -> Value {
    near_number(rng, &number.to_string()).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

/// A text that has lost its last word, or has an `s` too many.
fn shortened(text: &str) -> String {
    text.rsplit_once(' ').map_or_else(|| format!("{text}s"), |(head, _)| head.to_owned())
}

/// A number off by a bit: by one, by ten, or with its last digit changed. Keeps its number of decimals.
fn near_number(rng: &mut Pcg64, said: &str) -> Option<String> {
    let digits = said.strip_prefix('-').unwrap_or(said);
    let plain_number = !digits.is_empty()
        && digits.len() <= 15
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let value: f64 = said.parse().ok().filter(|_| plain_number)?;
    let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len());
    let unit = 10_f64.powi(-i32::try_from(decimals).ok()?);
    // Some last digits away, more of them in large numbers; never text that the right answer stands in.
    let bit = unit * value.abs().log10().floor().exp2().max(1.0);
    let from = *pick(rng, &[0_usize, 1, 2, 3, 4])?;
    let steps = [1.0, -1.0, 2.0, 10.0, -10.0].into_iter().cycle().skip(from).take(5);
    steps.map(|step| format!("{:.decimals$}", value + step * bit)).find(|wrong| !wrong.contains(said))
}

fn other_letter(rng: &mut Pcg64, said: &str) -> Option<String> {
    let mut chars = said.chars();
    let (letter, None) = (chars.next()?, chars.next()) else { return None };
    let others: Vec<char> = ('A'..='D').filter(|c| !c.eq_ignore_ascii_case(&letter)).collect();
    let other = *pick(rng, &others).filter(|_| letter.is_ascii_alphabetic())?;
    Some(if letter.is_ascii_lowercase() { other.to_ascii_lowercase() } else { other }.to_string())
}

fn opposite(said: &str) -> Option<String> {
    let pairs = [("yes", "no"), ("true", "false"), ("Yes", "No"), ("True", "False")];
    pairs.iter().find_map(|(a, b)| {
        let other = if said == *a {
            b
        } else if said == *b {
            a
        } else {
            return None;
        };
        Some((*other).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::rng;
    use serde_json::json;

    #[test]
    fn wrong_answers_keep_the_form_and_differ() {
        let other = [json!("Paris"), json!(["Rome", "Roma"]), json!("Rome, Italy")];
        let others: Vec<&Value> = other.iter().collect();
        for seed in 0..50 {
            let mut rng = rng(seed, "wrong");
            for number in [json!(405), json!(0), json!(-7), json!("12.50"), json!(1.5)] {
                let wrong = plausible(&mut rng, &number, &[]);
                let (was, is): (f64, f64) = (plain(&number).parse().unwrap(), wrong.parse().unwrap());
                assert!((was - is).abs() > 1e-3, "{number} became {wrong}");
            }
            let letter = plausible(&mut rng, &json!("B"), &[]);
            assert!(["A", "C", "D"].contains(&letter.as_str()), "{letter}");
            assert_eq!(plausible(&mut rng, &json!("yes"), &[]), "no");
            assert_eq!(plausible(&mut rng, &json!(["Rome", "Roma"]), &others), "Paris");
            assert_eq!(plausible(&mut rng, &json!("Rome"), &[]), "I am not sure");
        }
    }

    #[test]
    fn a_broken_object_is_json_and_another_object() {
        let right = json!({"name": "Maria Lopez", "quantity": 3, "express": true, "item": "lamp"});
        for seed in 0..100 {
            let wrong = plausible(&mut rng(seed, "object"), &right, &[]);
            let parsed: Value = serde_json::from_str(&wrong).unwrap();
            assert_ne!(parsed, right);
        }
    }
}
