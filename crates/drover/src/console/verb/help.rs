//! HELP

use crate::console::grammar::{COMMANDS, Form};
use crate::console::parse::Command;
use crate::console::{Console, Failure, suggest};
use std::io::{self, Write};

/// HELP lists the commands; HELP ADD those that start with ADD; HELP ADD EXTRACT explains one.
pub fn help(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let Some(words) = &command.argument else {
        list(console.output, COMMANDS.iter())?;
        writeln!(
            console.output,
            "\nHELP ADD EXTRACT explains one command. Keywords may be in any case; commands end with ;"
        )?;
        return Ok(());
    };
    let wanted = words.to_ascii_uppercase();
    let found: Vec<&Form> = COMMANDS.iter().filter(|form| form.name() == wanted || form.verb == wanted).collect();
    match found[..] {
        [] => {
            let names: Vec<String> = COMMANDS.iter().map(Form::name).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let hint = suggest::hint(&wanted, &names).unwrap_or_else(|| "HELP lists the commands".to_owned());
            Err(Failure::new(format!("there is no command {wanted}")).with_next_step(hint))
        }
        [form] => Ok(explain(console.output, form)?),
        _ => Ok(list(console.output, found.into_iter())?),
    }
}

fn list<'a>(output: &mut dyn Write, forms: impl Iterator<Item = &'a Form>) -> io::Result<()> {
    for form in forms {
        writeln!(output, "{}\n    {}", form.usage(), form.summary)?;
    }
    Ok(())
}

fn explain(output: &mut dyn Write, form: &Form) -> io::Result<()> {
    writeln!(output, "{}\n\n{}", form.usage(), form.summary)?;
    if !form.details.is_empty() {
        writeln!(output, "{}", form.details)?;
    }
    let options = form.clauses.iter().map(|clause| (clause.keyword, clause.help));
    let options: Vec<(&str, &str)> = options.chain(form.force.map(|help| ("!", help))).collect();
    if !options.is_empty() {
        writeln!(output)?;
    }
    for (keyword, help) in options {
        writeln!(output, "  {keyword:<16} {help}")?;
    }
    writeln!(output, "\nExample:\n  {}", form.example)
}
