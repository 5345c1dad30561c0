//! `init`: a commented suite to start from.

use std::io::Write;

use super::args::InitArgs;
use super::error::CliError;
use super::exit::Exit;
use crate::spec;

pub fn init(args: &InitArgs) -> Result<Exit, CliError> {
    for url in [&args.baseline, &args.candidate].into_iter().flatten() {
        let sound = url::Url::parse(url).is_ok_and(|url| ["http", "https"].contains(&url.scheme()));
        if !sound {
            return Err(CliError::Usage(format!("`{url}` is no URL; write for example http://127.0.0.1:8000/v1")));
        }
    }
    let text = spec::init_template(args.baseline.as_deref(), args.candidate.as_deref());
    let path = args.file.display().to_string();
    let created = std::fs::OpenOptions::new().write(true).create_new(true).open(&args.file);
    let mut file = match created {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(CliError::Usage(format!("{path} exists and is left alone; name another file")));
        }
        other => other.map_err(|error| CliError::Output { path: path.clone(), error })?,
    };
    file.write_all(text.as_bytes()).map_err(|error| CliError::Output { path: path.clone(), error })?;
    super::out(&format!(
        "wrote {path}\nnext: counterpoise validate {path}   then: counterpoise plan {path}   then: counterpoise run {path}\n"
    ));
    Ok(Exit::Pass)
}
