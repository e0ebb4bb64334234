//! `completions` and `man`: what a shell and a reader of manuals are given.

use crate::arguments::{CompletionsArguments, ManArguments, definition};
use crate::ending::{Ending, Failure};
use crate::output;

const NAME: &str = "wellspring";

/// Prints the completions for a shell.
pub(crate) fn completions(arguments: &CompletionsArguments) -> crate::Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut definition(), NAME, &mut script);
    output::result(&String::from_utf8_lossy(&script))?;
    Ok(Ending::Done)
}

/// Prints the manual page, or writes the pages of all subcommands into a folder.
pub(crate) fn man(arguments: &ManArguments) -> crate::Outcome {
    let Some(folder) = &arguments.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(definition()).render(&mut page).map_err(Failure::faulty)?;
        output::result(&String::from_utf8_lossy(&page))?;
        return Ok(Ending::Done);
    };
    let made = std::fs::create_dir_all(folder);
    made.and_then(|()| clap_mangen::generate_to(definition(), folder)).map_err(|error| {
        let folder = crate::trace_file::shown(folder);
        Failure::faulty(format_args!("{folder} cannot be written to: {error}"))
    })?;
    Ok(Ending::Done)
}
