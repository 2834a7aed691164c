//! Nothing in the repository may depend on one developer's machine.

use crate::tree;

/// Beginnings of paths that exist on one machine only, split so that this file does not hold them.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Use", "rs/"),
    concat!("/t", "mp/"),
];

#[test]
fn no_file_names_a_path_of_one_machine() {
    let mut complaints = Vec::new();
    for path in tree::files("") {
        let text = tree::text(&path);
        for (number, line) in text.lines().enumerate() {
            for prefix in MACHINE_PATHS {
                let begins_a_path = line.match_indices(prefix).any(|(place, _)| {
                    // Inside a longer path (`target/x`, `https://…`) it is something else.
                    !line[..place].ends_with(|before: char| before.is_alphanumeric() || "._-/~*}>".contains(before))
                        && line[place + prefix.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
                });
                if begins_a_path {
                    complaints.push(format!("{path}:{}: a path of one machine", number + 1));
                }
            }
        }
    }
    tree::expect_none(complaints);
}
