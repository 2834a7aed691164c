//! Golden scripts of the conflict engine: a cell of the reference's matrix per block.

use apply::conflict::{
    Chain, ColumnGroup, ConflictRules, DefinitionError, Detection, Engine, FunctionAnswer, FunctionCall, Groups,
    MissingMethod, Priorities, Ruling, Scope, Settlement, Stamp, StampColumns, Surroundings, UniqueMethod,
    UpdateMethod, UserFunction,
};
use change::{Column, LogicalType, Operation, Row, TableDefinition, TableName, Value};
use std::collections::HashMap;
use std::path::Path;
use testkit::script::{Command, Script, run_folder};

#[test]
fn every_cell_of_the_conflict_matrix() {
    run_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts/conflict"), || Box::new(ConflictScript::new()));
}

/// Commands:
/// - `table COLUMN:TYPE[:LENGTH][*] …` starts anew; a star marks the key
/// - `scope row|group`, `stamps TIME SITE`, `no-compare COLUMN [update|delete]`
/// - `group NAME COLUMN,…`, `shadow NAME`, `drop-group NAME`
/// - `method GROUP NUMBER METHOD [COLUMN,…] [priorities=VALUE:NUMBER,…]` for update conflicts; DEFAULT is the rest
/// - `insert-method` likewise, for inserts whose key exists
/// - `unique-method CONSTRAINT NUMBER METHOD [COLUMN,…]`, `missing update|delete|changed|all NUMBER METHOD [COLUMN,…]`
/// - `function NAME resolved|unresolved|discard|raises [VALUE,…]`, `site NAME`, `sequence NUMBER`
/// - `update`, `delete`, `insert-exists`, `insert-after-delete`, `violates CONSTRAINT` with rows `old=`, `new=`, `current=`
///   and stamps `stamp=TIME@SITE`, `tombstone=TIME@SITE`
/// - `advise sites=N`
///
/// Rows are values between commas; `NULL` is NULL, `~` untold, `''` empty.
struct ConflictScript {
    table: TableDefinition,
    rules: ConflictRules,
    world: World,
}

/// What a function says, and the values that it gives back.
type Says = (String, Vec<Option<Vec<u8>>>);

#[derive(Default)]
struct World {
    site: String,
    next: Option<u64>,
    functions: HashMap<String, Says>,
    calls: Vec<String>,
}

impl Surroundings for World {
    fn origin_site(&self) -> &str {
        &self.site
    }

    fn next_sequence(&mut self) -> Option<u64> {
        let number = self.next?;
        self.next = Some(number + 1);
        Some(number)
    }

    fn call(&mut self, call: &FunctionCall<'_>) -> Result<FunctionAnswer, String> {
        let text = |value: &Option<Vec<u8>>| {
            value.as_ref().map_or("-".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
        };
        let parameters: Vec<String> = call
            .parameters
            .iter()
            .map(|given| format!("{}/{}/{}", text(&given.old), text(&given.new), text(&given.current)))
            .collect();
        self.calls.push(format!("  asked {} about {}: {}", call.function, call.kind, parameters.join(" ")));
        let Some((says, values)) = self.functions.get(call.function) else { return Err("no such function".to_owned()) };
        match says.as_str() {
            "raises" => Err("it raised an error".to_owned()),
            says => Ok(FunctionAnswer {
                resolved: says != "unresolved",
                discard: says == "discard",
                values: values.clone(),
            }),
        }
    }
}

impl ConflictScript {
    fn new() -> ConflictScript {
        let table = TableDefinition { name: TableName::new("main", "t"), columns: Vec::new().into() };
        ConflictScript { table, rules: ConflictRules::default(), world: World::default() }
    }

    fn define(&mut self, columns: &[&str]) -> Result<(), String> {
        *self = ConflictScript::new();
        let mut shape = Vec::new();
        for (place, text) in columns.iter().enumerate() {
            let (text, is_key) = text.strip_suffix('*').map_or((*text, false), |text| (text, true));
            let mut parts = text.split(':');
            let (name, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let logical = match kind {
                "int" => LogicalType::Integer,
                "decimal" => LogicalType::Decimal,
                "float" => LogicalType::Float,
                "text" => LogicalType::Text,
                "timestamp" => LogicalType::Timestamp,
                "any" => LogicalType::Dynamic,
                "json" => LogicalType::Json,
                other => return Err(format!("no type {other}")),
            };
            let mut column = Column::new(name, logical, kind);
            if let Some(length) = parts.next() {
                column.length = Some(length.parse().map_err(|_| "not a length")?);
            }
            if is_key {
                column = column.with_key(place as u16);
            }
            shape.push(column);
        }
        self.table.columns = shape.into();
        Ok(())
    }

    fn column(&self, name: &str) -> Result<usize, String> {
        self.table.column(name).ok_or_else(|| format!("no column {name}"))
    }

    fn columns(&self, command: &Command<'_>, place: usize) -> Result<Vec<usize>, String> {
        let list = command.words.get(place).copied().unwrap_or_default();
        list.split(',').filter(|name| !name.is_empty()).map(|name| self.column(name)).collect()
    }

    fn row(&self, command: &Command<'_>, key: &str) -> Result<Option<Row>, String> {
        let Some(text) = command.setting(key) else { return Ok(None) };
        let values: Vec<&str> = text.split(',').collect();
        if values.len() != self.table.columns.len() {
            return Err(format!("{key} has {} values", values.len()));
        }
        Ok(Some(Row::from_values(values.into_iter().map(value))))
    }

    fn stamp(command: &Command<'_>, key: &str) -> Option<Stamp> {
        let (time, site) = command.setting(key)?.split_once('@')?;
        Some(Stamp { time: time.into(), site: site.into() })
    }

    fn update_method(&self, command: &Command<'_>) -> Result<UpdateMethod, String> {
        let columns = self.columns(command, 3)?;
        let first = || columns.first().copied().ok_or("a column is missing");
        Ok(match command.word(2)? {
            "latest" => UpdateMethod::LatestTimestamp(first()?),
            "earliest" => UpdateMethod::EarliestTimestamp(first()?),
            "maximum" => UpdateMethod::Maximum(first()?),
            "minimum" => UpdateMethod::Minimum(first()?),
            "additive" => UpdateMethod::Additive(first()?),
            "average" => UpdateMethod::Average(first()?),
            "priority" => UpdateMethod::PriorityGroup { column: first()?, priorities: priorities(command)? },
            "site-priority" => UpdateMethod::SitePriority { column: first()?, priorities: priorities(command)? },
            "stamp" => UpdateMethod::LatestStamp(StampColumns {
                time: first()?,
                site: columns.get(1).copied().ok_or("a column is missing")?,
            }),
            "overwrite" => UpdateMethod::Overwrite,
            "discard" | "ignore" => UpdateMethod::Discard,
            "discard-record" => UpdateMethod::DiscardRecord,
            "usemax" | "usemaxeq" => {
                UpdateMethod::UseMaximum { column: first()?, or_equal: command.word(2)? == "usemaxeq" }
            }
            "usemin" | "usemineq" => {
                UpdateMethod::UseMinimum { column: first()?, or_equal: command.word(2)? == "usemineq" }
            }
            "usedelta" => UpdateMethod::UseDelta,
            function => UpdateMethod::UserFunction(UserFunction { name: function.to_owned(), columns }),
        })
    }

    fn engine<T>(&mut self, run: impl FnOnce(&mut Engine<'_>) -> T) -> T {
        run(&mut Engine::new(&self.table, &self.rules, &mut self.world))
    }

    fn execute_definition(&mut self, command: &Command<'_>) -> Result<Result<(), DefinitionError>, String> {
        let number = || command.word(1)?.parse::<i32>().map_err(|_| "not a number".to_owned());
        Ok(match command.name {
            "group" => {
                let columns: Vec<&str> = command.word(1)?.split(',').collect();
                self.rules.make_column_group(&self.table, command.word(0)?, &columns)
            }
            "shadow" => self.rules.rename_shadow_column_group(&self.table, command.word(0)?),
            "drop-group" => self.rules.drop_column_group(command.word(0)?),
            "method" => {
                let method = self.update_method(command)?;
                match command.word(0)? {
                    "DEFAULT" => self.rules.update.rest.add(number()?, method),
                    group => self.rules.add_update_resolution(&self.table, group, number()?, method),
                }
            }
            "insert-method" => {
                let method = self.update_method(command)?;
                let (name, number) = (command.word(0)?, number()?);
                let columns = match command.setting("cols") {
                    Some(columns) => columns.split(',').map(|name| self.column(name)).collect::<Result<_, _>>()?,
                    None => Default::default(),
                };
                let groups = self.rules.insert.get_or_insert_with(Groups::default);
                if name == "DEFAULT" {
                    groups.rest.add(number, method)
                } else {
                    let mut chain = Chain::default();
                    let added = chain.add(number, method);
                    groups.groups.push(ColumnGroup { name: name.to_owned(), columns, chain });
                    added
                }
            }
            "unique-method" => {
                let columns = self.columns(command, 3)?;
                let first = || columns.first().copied().ok_or("a column is missing");
                let method = match command.word(2)? {
                    "append-site" => UniqueMethod::AppendSiteName(first()?),
                    "append-sequence" => UniqueMethod::AppendSequence(first()?),
                    "discard" => UniqueMethod::Discard,
                    function => UniqueMethod::UserFunction(UserFunction { name: function.to_owned(), columns }),
                };
                self.rules.add_unique_resolution(&self.table, command.word(0)?, number()?, method)
            }
            "missing" => {
                let method = match command.word(2)? {
                    "overwrite" => MissingMethod::Overwrite,
                    "ignore" => MissingMethod::Ignore,
                    "discard" => MissingMethod::DiscardRecord,
                    "stamp" => MissingMethod::LatestStamp,
                    "delete-wins" => MissingMethod::DeleteWins,
                    function => {
                        let columns = self.columns(command, 3)?;
                        MissingMethod::UserFunction(UserFunction { name: function.to_owned(), columns })
                    }
                };
                match command.word(0)? {
                    "update" => self.rules.update_missing.add(number()?, method),
                    "delete" => self.rules.delete_missing.add(number()?, method),
                    "changed" => self.rules.delete_changed.add(number()?, method),
                    _ => self.rules.add_delete_resolution(number()?, method),
                }
            }
            "no-compare" => {
                let of = |name: &str| (command.words.get(1).is_none_or(|word| *word == name)).then_some(false);
                self.rules.compare_old_values(&self.table, command.word(0)?, of("update"), of("delete"))
            }
            other => return Err(format!("no command {other}")),
        })
    }

    fn render(&mut self, settlement: &Settlement) -> String {
        let mut lines = vec![match &settlement.ruling {
            Ruling::Write(operation) => format!("write {}", render_operation(operation)),
            Ruling::Keep => "keep".to_owned(),
            Ruling::Again(operation) => format!("again {}", render_operation(operation)),
            Ruling::Unresolved => "unresolved".to_owned(),
        }];
        if settlement.discard {
            lines[0].push_str(", to the discard file");
        }
        lines.append(&mut self.world.calls);
        for entry in &settlement.entries {
            let reference = if entry.reference.is_empty() { String::new() } else { format!(" {}", entry.reference) };
            let tried: Vec<String> = entry.tried.iter().map(|(number, name)| format!("{number} {name}")).collect();
            let tried = if tried.is_empty() { "no method".to_owned() } else { tried.join(", ") };
            let failure = entry.failure.as_ref().map(|failure| format!(" ({failure})")).unwrap_or_default();
            lines.push(format!("  {}{reference}: {tried}: {}{failure}", entry.kind, entry.resolution));
        }
        lines.join("\n")
    }
}

impl Script for ConflictScript {
    fn execute(&mut self, command: &Command<'_>) -> Result<String, String> {
        let (old, new) = (self.row(command, "old")?, self.row(command, "new")?);
        let current = self.row(command, "current")?;
        let (stamp, tombstone) = (ConflictScript::stamp(command, "stamp"), ConflictScript::stamp(command, "tombstone"));
        let after =
            command.setting("after").map(|after| after.parse::<i32>().map_err(|_| "not a number")).transpose()?;
        let need_new = || new.as_ref().ok_or("new= is missing");
        let settlement = match command.name {
            "table" => return self.define(&command.words).map(|()| String::new()),
            "scope" => {
                self.rules.scope = if command.word(0)? == "row" { Scope::Row } else { Scope::Group };
                return Ok(String::new());
            }
            "stamps" => {
                let (time, site) = (self.column(command.word(0)?)?, self.column(command.word(1)?)?);
                self.rules.detection = Detection::Stamps(StampColumns { time, site });
                return Ok(String::new());
            }
            "site" => {
                command.word(0)?.clone_into(&mut self.world.site);
                return Ok(String::new());
            }
            "sequence" => {
                self.world.next = Some(command.word(0)?.parse().map_err(|_| "not a number")?);
                return Ok(String::new());
            }
            "function" => {
                let values = command.words.get(2).copied().unwrap_or_default();
                let values = values.split(',').filter(|text| !text.is_empty());
                let values = values.map(|text| value(text).bytes().map(<[u8]>::to_vec)).collect();
                self.world.functions.insert(command.word(0)?.to_owned(), (command.word(1)?.to_owned(), values));
                return Ok(String::new());
            }
            "advise" => {
                let lines: Vec<String> = self
                    .rules
                    .divergences(command.number("sites", 2)? as usize)
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                return Ok(if lines.is_empty() { "converges".to_owned() } else { lines.join("\n") });
            }
            "update" => {
                let new = need_new()?;
                self.engine(|engine| engine.update(old.as_ref(), new, current.as_ref(), tombstone.as_ref()))
            }
            "delete" => {
                let old = old.as_ref().ok_or("old= is missing")?;
                self.engine(|engine| engine.delete(old, current.as_ref(), stamp.as_ref(), tombstone.as_ref()))
            }
            "insert-exists" => {
                let (new, current) = (need_new()?, current.as_ref().ok_or("current= is missing")?);
                self.engine(|engine| engine.insert_exists(new, current))
            }
            "insert-after-delete" => {
                let (new, tombstone) = (need_new()?, tombstone.as_ref().ok_or("tombstone= is missing")?);
                self.engine(|engine| engine.insert_after_delete(new, tombstone))
            }
            "violates" => {
                let new = need_new()?.clone();
                let operation = match &old {
                    Some(old) => Operation::Update { old: Some(old.clone()), new },
                    None => Operation::Insert { new },
                };
                let constraint = command.word(0)?;
                self.engine(|engine| engine.unique(constraint, &operation, current.as_ref(), after))
            }
            _ => {
                return Ok(match self.execute_definition(command)? {
                    Ok(()) => String::new(),
                    Err(error) => format!("refused: {error} ({})", error.number()),
                });
            }
        };
        Ok(self.render(&settlement))
    }
}

fn priorities(command: &Command<'_>) -> Result<Priorities, String> {
    let mut priorities = Priorities::default();
    for pair in command.setting("priorities").ok_or("priorities= is missing")?.split(',') {
        let (value, number) = pair.split_once(':').ok_or("not VALUE:NUMBER")?;
        let number = number.parse().map_err(|_| "not a number")?;
        priorities.add(value, number).map_err(|error| error.to_string())?;
    }
    Ok(priorities)
}

fn value(text: &str) -> Value<'_> {
    match text {
        "NULL" => Value::Null,
        "~" => Value::Unchanged,
        "''" => Value::Bytes(b""),
        text => Value::Bytes(text.as_bytes()),
    }
}

fn render_operation(operation: &Operation) -> String {
    match operation {
        Operation::Insert { new } => format!("insert {}", render_row(new)),
        Operation::Update { old, new } => {
            format!("update {} to {}", old.as_ref().map_or("-".to_owned(), render_row), render_row(new))
        }
        Operation::Delete { old } => format!("delete {}", render_row(old)),
        Operation::Truncate(_) => "truncate".to_owned(),
    }
}

fn render_row(row: &Row) -> String {
    let texts = row.values().map(|value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Unchanged => "~".to_owned(),
        Value::Bytes(b"") => "''".to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    });
    texts.collect::<Vec<_>>().join(",")
}
