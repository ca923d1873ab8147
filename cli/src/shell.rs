//! `alluvium completions` and `alluvium man`: for the shell and for packagers.

use clap::Args;
use clap_complete::Shell;

use crate::console::Console;
use crate::error::CliError;

/// Print completions for a shell
///
/// For bash: `alluvium completions bash > /etc/bash_completion.d/alluvium`
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the man page, or that of one command
///
/// For all of them: `alluvium man > alluvium.1`, `alluvium man verify > alluvium-verify.1`
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The command; the whole program without it
    command: Option<String>,
}

/// Prints completions.
pub(crate) fn completions(args: &CompletionsArgs, console: &mut Console) {
    clap_complete::generate(args.shell, &mut crate::command(), "alluvium", console.buffer());
}

/// Prints a man page.
pub(crate) fn man(args: &ManArgs, console: &mut Console) -> Result<(), CliError> {
    let mut program = crate::command();
    program.build();
    let command = match &args.command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(command) => command.clone().display_name(format!("alluvium-{name}")),
            None => return Err(CliError::NoSuchCommand { name: name.clone() }),
        },
    };
    let title = command.get_display_name().unwrap_or("alluvium").to_owned();
    let page = clap_mangen::Man::new(command).title(title);
    page.render(console.buffer()).map_err(|source| CliError::Output { source })
}
