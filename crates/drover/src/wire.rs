//! Which database product a url speaks of.

use change::{CaseRule, TableName, TableNameError};
use database::{Database, Error, ErrorClass};
use std::path::Path;
use std::sync::Arc;

/// Schemes that [`open`] knows, with an example of each.
const SCHEMES: &str = "sqlite:PATH, such as sqlite:../shop.db, or postgres://USER@HOST:PORT/DATABASE";

/// Opens the database that `url` names. A relative path counts from the home directory, as trail names do, so that a
/// parameter file means the same wherever its group is started.
///
/// # Errors
/// [`ErrorClass::Unsupported`] for a scheme that is not known, else what the product says.
pub fn open(home: &Path, url: &str) -> Result<Arc<dyn Database>, Error> {
    match url.split_once(':') {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("sqlite") => {
            let path = home.join(path);
            // A path without detours is the one that messages should show; one that leads nowhere is shown as it is.
            db_sqlite::open(&format!("sqlite:{}", path.canonicalize().unwrap_or(path).display()))
        }
        Some((scheme, rest)) if rest.starts_with("//") && ["postgres", "postgresql"].contains(&scheme) => {
            db_postgres::open(url)
        }
        Some((scheme, _)) => Err(Error::new(
            ErrorClass::Unsupported,
            format!("there is no database product with the url scheme {scheme}"),
        )
        .with_next_step(format!("write one of: {SCHEMES}"))),
        None => Err(Error::new(ErrorClass::Unsupported, "the database url has no scheme")
            .with_next_step(format!("write one of: {SCHEMES}"))),
    }
}

/// The table that `text` names: `schema.table`, or `table` in the database's default schema. Unquoted names take the form
/// in which the database stores them.
///
/// # Errors
/// [`TableNameError`] when `text` has more parts or none.
pub fn table(database: &dyn Database, text: &str) -> Result<TableName, TableNameError> {
    let name = TableName::parse(text).or_else(|error| {
        let qualified = format!("{}.{text}", database.default_schema());
        TableName::parse(&qualified).map_err(|_| error)
    })?;
    match database.case_rule() {
        CaseRule::FoldToLower if !text.contains('"') => {
            Ok(TableName::new(name.schema.to_lowercase(), name.table.to_lowercase()))
        }
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_is_refused_with_the_known_ones_and_without_secrets() {
        let error = open(Path::new("/home"), "oracle://scott:tiger@host/db").err().expect("a refusal");
        assert_eq!(error.to_string(), "there is no database product with the url scheme oracle");
        assert_eq!(error.next_step(), Some(&*format!("write one of: {SCHEMES}")));
        assert!(open(Path::new("/home"), "shop.db").is_err());
    }

    #[test]
    fn a_relative_path_counts_from_the_home() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("home");
        std::fs::create_dir(&home).expect("a home");
        std::fs::write(folder.path().join("shop.db"), "").expect("a file");
        assert!(open(&home, "sqlite:../shop.db").is_ok());
        assert!(open(&home, &format!("SQLITE:{}", folder.path().join("shop.db").display())).is_ok());
        assert_eq!(open(&home, "sqlite:shop.db").err().map(|error| error.class()), Some(ErrorClass::Missing));
    }
}
