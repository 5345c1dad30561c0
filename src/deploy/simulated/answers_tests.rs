use super::*;
use serde_json::json;

fn draws(errors: &ErrorModel, call: u64) -> Draws<'_> {
    Draws {
        errors,
        nondeterminism: Nondeterminism::default(),
        seed: 5,
        call,
        temperature: 0.0,
        request_seed: 9,
        chatter_tokens: 6,
    }
}

fn prompts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("Question number {i}: which city stands at crossing {i}?")).collect()
}

fn book(count: usize) -> AnswerBook {
    AnswerBook::from_rows(&prompts(count), |prompt| {
        let number = prompt.split(' ').nth(2)?.trim_end_matches(':').to_owned();
        let mut entry = Entry::new(prompt.clone(), format!("City{number}"));
        entry.category = Some(if number.ends_with('7') { "hard".to_owned() } else { "easy".to_owned() });
        Some(entry)
    })
}

fn wrong_ones(errors: &ErrorModel, book: &AnswerBook, count: usize) -> Vec<usize> {
    let prompts = prompts(count);
    (0..count).filter(|i| book.answer(&prompts[*i], &draws(errors, 0)).right == Some(false)).collect()
}

#[test]
fn the_share_of_wrong_answers_is_the_models() {
    let book = book(4_000);
    let errors = ErrorModel { common: 0.2, ..ErrorModel::default() };
    let wrong = wrong_ones(&errors, &book, 4_000).len();
    assert!((720..880).contains(&wrong), "{wrong} of 4000 for 20 %");
}

#[test]
fn a_related_model_errs_where_its_parent_errs_and_a_little_more() {
    let book = book(4_000);
    let parent = ErrorModel { common: 0.1, ..ErrorModel::default() };
    let child = ErrorModel { own: 0.02, own_seed: 2, recovers: 0.1, ..parent.clone() };
    let (before, after) = (wrong_ones(&parent, &book, 4_000), wrong_ones(&child, &book, 4_000));
    let gained = before.iter().filter(|i| !after.contains(i)).count();
    let lost = after.iter().filter(|i| !before.contains(i)).count();
    assert!((20..65).contains(&gained), "{gained} recovered of {}", before.len());
    assert!((45..100).contains(&lost), "{lost} lost");
}

#[test]
fn harder_categories_fail_more_often() {
    let book = book(4_000);
    let by_category = [("hard".to_owned(), 5.0)].into();
    let errors = ErrorModel { common: 0.1, by_category, ..ErrorModel::default() };
    let wrong = wrong_ones(&errors, &book, 4_000);
    let hard = wrong.iter().filter(|i| *i % 10 == 7).count();
    assert!((160..240).contains(&hard), "{hard} of 400 at 50 %");
    assert!((300..420).contains(&(wrong.len() - hard)), "{} of 3600 at 10 %", wrong.len() - hard);
}

#[test]
fn a_wrong_answer_is_another_rows_and_the_same_in_every_call() {
    let book = book(50);
    let errors = ErrorModel { common: 1.0, ..ErrorModel::default() };
    for prompt in prompts(50) {
        let first = book.answer(&prompt, &draws(&errors, 0));
        let right = book.answer(&prompt, &draws(&ErrorModel::default(), 0));
        assert_eq!((first.right, right.right), (Some(false), Some(true)));
        assert_ne!(first.text, right.text);
        assert!(first.text.starts_with("City"), "{}", first.text);
        assert_eq!(book.answer(&prompt, &draws(&errors, 3)), first);
    }
}

#[test]
fn a_truncated_prompt_is_known_by_its_end_and_answered_wrong_where_the_evidence_is_gone() {
    let passage = format!("The code is VXH-288. {}", "The hall is long and the lamps are old. ".repeat(20));
    let prompt = |house: &str| {
        format!("{passage}\n\nWhat is the access code of the archive of the house that is called {house}?")
    };
    let entry = |house: &str, code: &str| Entry { evidence: Some(code.to_owned()), ..Entry::new(prompt(house), code) };
    let book = AnswerBook::from_entries(vec![entry("Northgate", "VXH-288"), entry("Southgate", "ABC-111")]);
    let errors = ErrorModel::default();
    let ask = |text: &str| book.answer(text, &draws(&errors, 0));
    assert_eq!(ask(&prompt("Northgate")), Answer { text: "VXH-288".to_owned(), right: Some(true) });
    assert_eq!(ask(&prompt("Southgate")).right, Some(false), "the evidence never stood in the passage");
    let tail = |text: &str, chars: usize| text.chars().skip(text.chars().count() - chars).collect::<String>();
    let long_tail = tail(&prompt("Northgate"), 400);
    assert_eq!(ask(&long_tail), Answer { text: "ABC-111".to_owned(), right: Some(false) });
    assert_eq!(ask(&format!("nonce-17 {}", prompt("Northgate"))).right, Some(true), "a nonce before the prompt");
    assert_eq!(ask("Who are you?").right, None);
}

#[test]
fn of_prompts_with_one_end_the_nearest_is_meant() {
    let end = "x".repeat(100);
    let entries = ["one alpha ", "two beta "].map(|head| Entry::new(format!("{head}{end}"), head.trim()));
    let book = AnswerBook::from_entries(entries.to_vec());
    let errors = ErrorModel::default();
    assert_eq!(book.answer(&format!("beta {end}"), &draws(&errors, 0)).text, "two beta");
    assert_eq!(book.answer(&format!("alpha {end}"), &draws(&errors, 0)).text, "one alpha");
}

#[test]
fn nondeterminism_flips_its_share_of_calls_and_no_more() {
    let book = book(2_000);
    let errors = ErrorModel { common: 0.1, ..ErrorModel::default() };
    let usual = wrong_ones(&errors, &book, 2_000);
    let prompts = prompts(2_000);
    let twin = |call: u64| -> usize {
        let wavering = Nondeterminism { wording: 0.0, verdict: 0.02 };
        let draws = Draws { nondeterminism: wavering, ..draws(&errors, call) };
        (0..2_000).filter(|i| book.answer(&prompts[*i], &draws).right == Some(usual.contains(i))).count()
    };
    let (first, second) = (twin(0), twin(1));
    assert!((22..62).contains(&first) && (22..62).contains(&second), "{first}, {second} of 2000 for 2 %");
    let both = Nondeterminism { wording: 0.0, verdict: 0.02 };
    let of = |call: u64, i: usize| book.answer(&prompts[i], &Draws { nondeterminism: both, ..draws(&errors, call) });
    assert!((0..2_000).any(|i| of(0, i) != of(1, i)), "two calls never differ");
    assert!((0..2_000).all(|i| of(1, i) == of(1, i)));
}

#[test]
fn wordings_keep_the_answer_and_vary_by_model_call_and_temperature() {
    let wordings = ["{answer}", "{answer}.", "{chatter} The answer is {answer}."].map(str::to_owned).to_vec();
    let entries =
        prompts(200).into_iter().map(|prompt| Entry { wordings: wordings.clone(), ..Entry::new(prompt, "Rome") });
    let book = AnswerBook::from_entries(entries.collect());
    let base = ErrorModel::default();
    let other = ErrorModel { rewords: 0.3, own_seed: 2, ..ErrorModel::default() };
    let prompts = prompts(200);
    let texts = |draws: &Draws<'_>| prompts.iter().map(|p| book.answer(p, draws).text).collect::<Vec<_>>();
    let changed = |a: &[String], b: &[String]| a.iter().zip(b).filter(|(a, b)| a != b).count();
    let usual = texts(&draws(&base, 0));
    assert!(usual.iter().all(|text| text.contains("Rome")));
    assert!(usual.iter().any(|text| text == "Rome") && usual.iter().any(|text| text.len() > 20));
    assert_eq!(usual, texts(&draws(&base, 1)));
    let reworded = changed(&usual, &texts(&draws(&other, 0)));
    assert!((15..75).contains(&reworded), "{reworded} of 200");
    let warm = |seed| Draws { temperature: 0.8, request_seed: seed, ..draws(&base, 0) };
    assert!(changed(&texts(&warm(1)), &texts(&warm(2))) > 40);
    assert_eq!(texts(&warm(1)), texts(&warm(1)));
}

#[test]
fn lists_give_their_first_alternative_and_objects_their_json() {
    assert_eq!(plain(&json!(["electron", "electrons"])), "electron");
    assert_eq!(plain(&json!({"b": 1, "a": [2]})), r#"{"b":1,"a":[2]}"#);
    assert_eq!(plain(&json!(405)), "405");
}
