//! What SOURCEDEFS says about the source's tables.

use change::TableDefinition;
use process::{Code, Failure, Home};
use std::sync::Arc;

/// The tables of all files that the parameters name.
///
/// # Errors
/// [`Code::DefinitionsFileWrong`] for a file that can't be read or is not understood, and for a table that two files define.
pub(super) fn read(home: &Home, files: &[String]) -> Result<Vec<Arc<TableDefinition>>, Box<Failure>> {
    let mut tables: Vec<Arc<TableDefinition>> = Vec::new();
    for file in files {
        let path = home.path().join(file);
        let what = format!("could not read the definitions file {}", path.display());
        let failed = |cause: &dyn std::error::Error| {
            Box::new(Failure::new(Code::DefinitionsFileWrong, what.clone()).with_cause(cause))
        };
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
        for table in trail::definitions_file::read(&text).map_err(|error| failed(&error))? {
            if tables.iter().any(|known| known.name == table.name) {
                let what = format!("{}: table {} is defined in an earlier file as well", path.display(), table.name);
                return Err(Box::new(Failure::new(Code::DefinitionsFileWrong, what)));
            }
            tables.push(Arc::new(table));
        }
    }
    Ok(tables)
}
