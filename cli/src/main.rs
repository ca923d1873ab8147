//! The `alluvium` command: everything is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    alluvium::run(std::env::args_os())
}
