//! The counterpoise binary.

fn main() -> std::process::ExitCode {
    counterpoise::cli::main()
}
