//! The report in a real browser: its script runs, its policy blocks nothing that is ours, and nothing that a model
//! wrote runs or breaks the layout.
//!
//! Needs Chromium: `COUNTERPOISE_CHROMIUM` names it, else it is looked for by its usual names. Without one these tests
//! fail: a report that no browser has opened is not tested.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use counterpoise::analyze::Summary;
use counterpoise::report;

fn page() -> String {
    let summary: Summary = serde_json::from_str(include_str!("../fixtures/report/summary.json")).unwrap();
    report::html(&summary, 1_796_120_000_000).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the test's own environment names the browser; no run depends on it")]
fn chromium() -> PathBuf {
    if let Ok(named) = std::env::var("COUNTERPOISE_CHROMIUM") {
        return PathBuf::from(named);
    }
    let folders = std::env::var("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
        .expect("no Chromium found: install the package `chromium`, or name one in COUNTERPOISE_CHROMIUM")
}

/// Opens the page and returns the document as it stands after the script ran.
fn opened(page: &str, width: u32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let dom = folder.path().join("dom");
    let mut child = Command::new(chromium())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
        ])
        .args(["--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&dom).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Bounded: a browser that hangs is ended, by the handle of the process that was started here.
    for _ in 0..600 {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "Chromium ended with {status}");
            return read(&dom);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("Chromium did not end within a minute");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The page with a script of the test's own at its end. The page's policy would block it, so the policy is taken out.
fn probed(script: &str) -> String {
    let page = page();
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let without = format!("{}{}", &page[..policy], &page[end..]);
    without.replace("</body>", &format!("<script>{script}</script></body>"))
}

fn root(dom: &str) -> &str {
    let start = dom.find("<html").unwrap();
    &dom[start..start + dom[start..].find('>').unwrap()]
}

#[test]
fn the_script_runs_and_the_policy_blocks_nothing_of_ours() {
    let page = page();
    // Left there to be looked at.
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html"), &page).unwrap();
    let dom = opened(&page, 1280);
    for mark in ["data-script=\"done\"", "data-styled=\"yes\"", "data-blocked=\"0\""] {
        assert!(root(&dom).contains(mark), "{mark} is missing in {}", root(&dom));
    }
    assert!(dom.contains("<form class=\"controls\" id=\"flip-controls\">"), "the filter is shown");
    assert!(dom.contains("58 of 58 shown</output>"), "the filter has counted the flips");
}

#[test]
fn the_policy_blocks_what_is_not_ours() {
    // An escape that failed: the answer's script stands in the page as markup.
    let page = page().replace("</main>", "<script>document.documentElement.dataset.script = \"owned\"</script><b id=x onclick=\"x\" style=\"color:red\">x</b></main>");
    let dom = opened(&page, 1280);
    assert!(!root(&dom).contains("owned"), "{}", root(&dom));
    assert!(root(&dom).contains("data-script=\"done\""), "{}", root(&dom));
    assert!(!root(&dom).contains("data-blocked=\"0\""), "the page counts what was blocked: {}", root(&dom));
}

#[test]
fn without_a_script_the_page_is_complete() {
    // Chromium can't print a document while scripts are off, so the page's own policy turns its script off.
    let page = page();
    let allowed = page.split("script-src ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let dom = opened(&page.replace(&format!("script-src {allowed}"), "script-src &#x27;none&#x27;"), 1280);
    assert!(!root(&dom).contains("data-script"));
    assert!(dom.contains("id=\"flip-controls\" hidden"), "a filter that does nothing is not shown");
    for words in ["Don’t ship", "Trade-off", "Canberra", "TTFT: time to first token", "What the figures mean"] {
        assert!(dom.contains(words), "{words} is missing");
    }
}

#[test]
fn hostile_text_neither_runs_nor_widens_the_page() {
    let probe = "for (const d of document.querySelectorAll('details')) d.open = true;\
        const root = document.documentElement;\
        root.dataset.room = root.scrollWidth + ' in ' + root.clientWidth;\
        root.dataset.fits = root.scrollWidth <= root.clientWidth ? 'yes' : 'no';\
        root.dataset.scripts = document.scripts.length;\
        root.dataset.images = document.images.length;";
    for width in [420, 768, 1280] {
        let dom = opened(&probed(probe), width);
        let root = root(&dom);
        assert!(root.contains("data-fits=\"yes\""), "at {width}: {root}");
        assert!(root.contains("data-scripts=\"2\"") && root.contains("data-images=\"0\""), "{root}");
    }
}

#[test]
fn tasks_are_sorted_and_flips_filtered_on_demand() {
    let probe = "const root = document.documentElement;\
        const table = document.querySelector('table.quality');\
        const buttons = table.querySelectorAll('th button');\
        const tasks = () => Array.from(table.querySelectorAll('tbody.task tr:not(.group) th')).map((cell) => cell.textContent.trim()).join(',');\
        buttons[1].click(); root.dataset.down = tasks(); buttons[1].click(); root.dataset.up = tasks();\
        const text = document.getElementById('flip-text');\
        text.value = 'canberra'; text.dispatchEvent(new Event('input'));\
        root.dataset.count = document.getElementById('flip-count').textContent;\
        const ways = document.getElementById('flip-way');\
        text.value = ''; ways.value = 'gained'; ways.dispatchEvent(new Event('change'));\
        root.dataset.gained = Array.from(document.querySelectorAll('.flip')).every((flip) => flip.hidden === (flip.dataset.way !== 'gained'));";
    let dom = opened(&probed(probe), 1280);
    let root = root(&dom);
    assert!(root.contains("data-count=\"2 of 58 shown\""), "{root}");
    assert!(root.contains("data-gained=\"true\""), "{root}");
    // By n: 200, 200, 60, 60, 12, then the other way round.
    let order = |name: &str| root.split(name).nth(1).unwrap().split('"').nth(1).unwrap().to_owned();
    assert!(
        order("data-down").ends_with("alert('task')</script>")
            || order("data-down").ends_with("alert('task')&lt;/script&gt;"),
        "{root}"
    );
    assert!(order("data-up").contains("alert('task')") && !order("data-up").starts_with("arithmetic"), "{root}");
}
