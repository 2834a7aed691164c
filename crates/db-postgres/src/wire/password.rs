//! Passwords that do not stand in the URL: of the environment, or of the file that libpq's programs read too.
//!
//! Format and order are libpq's: `PGPASSWORD`, else the first line that fits in the file that `PGPASSFILE` names, else in
//! `~/.pgpass`. A line is `host:port:database:user:password`; `*` fits everything, `\` makes the next character plain.

use super::config::{Config, Host, Secret};
use database::{Error, ErrorClass};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

impl Config {
    /// Reads `url` as [`Config::parse`] does, and looks for the password in this process's environment when it holds none.
    ///
    /// # Errors
    /// Those of [`Config::parse`] and [`Config::with_password_of`].
    pub fn of_process(url: &str) -> Result<Config, Error> {
        Config::parse(url)?.with_password_of(&|name| std::env::var_os(name))
    }

    /// Looks for a password where the URL gives none. `environment` gives the values of environment variables.
    ///
    /// # Errors
    /// [`ErrorClass::Permanent`] for a password file that can't be read although it is asked for, or that others may read.
    pub fn with_password_of(mut self, environment: &dyn Fn(&str) -> Option<OsString>) -> Result<Config, Error> {
        if self.password.is_some() {
            return Ok(self);
        }
        if let Some(password) = environment("PGPASSWORD").filter(|password| !password.is_empty()) {
            let password = password.into_string().map_err(|_| {
                Error::new(ErrorClass::Permanent, "the password in PGPASSWORD is not UTF-8")
                    .with_next_step("correct the environment variable PGPASSWORD")
            })?;
            self.password = Some(Secret::new(password));
            return Ok(self);
        }
        let named = environment("PGPASSFILE").filter(|path| !path.is_empty()).map(PathBuf::from);
        let home = || environment("HOME").map(|home| PathBuf::from(home).join(".pgpass"));
        let (path, is_named) = match named {
            Some(path) => (path, true),
            None => match home() {
                Some(path) => (path, false),
                None => return Ok(self),
            },
        };
        if let Some(text) = read(&path, is_named)? {
            self.password = text.lines().find_map(|line| self.password_of(line)).map(Secret::new);
        }
        Ok(self)
    }

    /// The password of a line, when the line fits.
    fn password_of(&self, line: &str) -> Option<String> {
        if line.starts_with('#') {
            return None;
        }
        let mut rest = line;
        let mut next = || {
            let (field, after) = field(rest);
            rest = after;
            field
        };
        let (host, port, database, user) = (next(), next(), next(), next());
        let fits = |field: &Field, value: &str| field.is_any || field.text == value;
        let is_host = match &self.host {
            Host::Tcp(name) => fits(&host, name),
            // As for libpq, the socket of the server's own directory counts as localhost.
            Host::Directory(directory) => {
                fits(&host, "localhost") || directory.to_str().is_some_and(|directory| fits(&host, directory))
            }
        };
        let fits = is_host
            && fits(&port, &self.port.to_string())
            && fits(&database, &self.database)
            && fits(&user, &self.user);
        let password = next().text;
        (fits && !password.is_empty()).then_some(password)
    }
}

#[derive(Default)]
struct Field {
    text: String,
    /// A star by itself.
    is_any: bool,
}

/// The first field of a line, and what comes after its colon.
fn field(line: &str) -> (Field, &str) {
    let mut text = String::new();
    let mut is_escaped = false;
    let mut characters = line.char_indices();
    let mut rest = "";
    while let Some((place, character)) = characters.next() {
        match character {
            ':' => {
                rest = &line[place + 1..];
                break;
            }
            '\\' => {
                is_escaped = true;
                text.extend(characters.next().map(|(_, plain)| plain));
            }
            plain => text.push(plain),
        }
    }
    let is_any = text == "*" && !is_escaped;
    (Field { text, is_any }, rest)
}

/// The file's text; `None` when it is not there and need not be.
fn read(path: &Path, is_named: bool) -> Result<Option<String>, Error> {
    let refuse = |what: &str| Error::new(ErrorClass::Permanent, format!("password file {} {what}", path.display()));
    let failed = |error: io::Error| {
        refuse("can't be read").with_next_step("correct PGPASSFILE, or the file's permissions").with_cause(error)
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if !is_named && error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(refuse("is not a plain file").with_next_step("correct PGPASSFILE"));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let step = format!("chmod 600 {}", path.display());
        return Err(refuse("may be read by others, so it is not used").with_next_step(step));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, Error> {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let config = Config::parse(url).unwrap().with_password_of(&environment)?;
        Ok(config.password.map(|password| password.reveal().to_owned()))
    }

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn url_comes_before_environment_and_environment_before_file() {
        let file = file("*:*:*:*:third\n", 0o600);
        let path = file.path().to_str().unwrap();
        let all = [("PGPASSWORD", "second"), ("PGPASSFILE", path)];
        assert_eq!(found("postgres://u:first@h/d", &all).unwrap().as_deref(), Some("first"));
        assert_eq!(found("postgres://u@h/d", &all).unwrap().as_deref(), Some("second"));
        assert_eq!(found("postgres://u@h/d", &all[1..]).unwrap().as_deref(), Some("third"));
        assert_eq!(found("postgres://u@h/d", &[]).unwrap(), None);
    }

    #[test]
    fn the_first_line_that_fits_gives_the_password() {
        let text = "# h:5432:d:u:comment\n\
                    other:5432:d:u:a\n\
                    h:5433:d:u:b\n\
                    h:*:d\\:d:u:c\n\
                    h:*:*:\\*:d\n\
                    h:*:*:u:p@s\\:s/w%o#r?d&\"'\\\\\n\
                    h:5432:d:u:late\n\
                    localhost:*:*:s:socket\n\
                    /run/pg:*:*:*:directory";
        let file = file(text, 0o600);
        let variables = [("PGPASSFILE", file.path().to_str().unwrap())];
        let found = |url: &str| found(url, &variables).unwrap();
        assert_eq!(found("postgres://u@h/d").as_deref(), Some("p@s:s/w%o#r?d&\"'\\"));
        assert_eq!(found("postgres://u@h:5433/d").as_deref(), Some("b"));
        assert_eq!(found("postgres://u@h/d%3Ad").as_deref(), Some("c"));
        assert_eq!(found("postgres://x@h/d"), None);
        assert_eq!(found("postgres://s@/d?host=/anywhere").as_deref(), Some("socket"));
        assert_eq!(found("postgres://u@/d?host=/run/pg").as_deref(), Some("directory"));
    }

    #[test]
    fn a_file_that_is_missing_or_open_to_others_is_refused_when_it_is_asked_for() {
        let open = file("*:*:*:*:secret\n", 0o640);
        let error = found("postgres://u@h/d", &[("PGPASSFILE", open.path().to_str().unwrap())]).unwrap_err();
        assert!(error.to_string().contains("may be read by others"), "{error}");
        assert!(found("postgres://u@h/d", &[("PGPASSFILE", "/nowhere/pgpass")]).is_err());
        assert_eq!(found("postgres://u@h/d", &[("HOME", "/nowhere")]).unwrap(), None);
    }
}
