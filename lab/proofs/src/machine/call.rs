use super::{Machine, Run, Stop};
use crate::term::Term;
use crate::value::{Kind, Scope, Value};

/// Calls of functions, closures and constructors.
impl Machine<'_> {
    /// Calls a function of the sources by its name, such as `Bucket::take`. The first argument of a
    /// method is its receiver.
    pub fn call(&mut self, name: &str, args: &[Value]) -> Value {
        if let Some(given) = self.given.get(name) {
            return given(self, args);
        }
        let function = self
            .source
            .functions
            .get(name)
            .unwrap_or_else(|| panic!("no function `{name}` in the sources"))
            .clone();
        self.of.push(function.of.unwrap_or_default());
        let ended = self.block_of(&mut Scope::new(), |machine, scope| {
            let mut args = args.iter().cloned();
            for input in &function.inputs {
                let arg = args.next().unwrap_or_else(|| panic!("`{name}` has more inputs"));
                match input {
                    syn::FnArg::Receiver(_) => {
                        scope.insert("self".into(), arg);
                    }
                    syn::FnArg::Typed(typed) => {
                        assert!(machine.fits(&typed.pat, arg, scope), "an input of `{name}`");
                    }
                }
            }
            machine.block(&function.body, scope)
        });
        self.of.pop();
        match ended {
            Ok(value) | Err(Stop::Return(value)) => value,
            Err(Stop::Break(_)) => panic!("a `break` leaves `{name}`"),
        }
    }

    /// Applies a closure or a given function.
    pub fn apply(&mut self, function: &Value, args: &[Value]) -> Value {
        let closure = match function {
            Value::Closure(closure) => closure,
            Value::Given(name) => {
                let given = self.given[name];
                return given(self, args);
            }
            other => panic!("{other:?} is no function"),
        };
        let ended = self.block_of(&mut closure.1.clone(), |machine, scope| {
            for (input, arg) in closure.0.inputs.iter().zip(args) {
                assert!(machine.fits(input, arg.clone(), scope), "an input of a closure");
            }
            machine.run(&closure.0.body, scope)
        });
        match ended {
            Ok(value) | Err(Stop::Return(value)) => value,
            Err(Stop::Break(_)) => panic!("a `break` leaves a closure"),
        }
    }

    pub(super) fn run_call(&mut self, call: &syn::ExprCall, scope: &mut Scope) -> Run {
        let syn::Expr::Path(path) = &*call.func else { panic!("a call of an expression") };
        let names: Vec<String> =
            path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.run(arg, scope)?);
        }
        if let [name] = &*names
            && let Some(function) = scope.get(name).cloned()
        {
            return Ok(self.apply(&function, &args));
        }
        Ok(self.construct(&names, args))
    }

    fn construct(&mut self, names: &[String], mut args: Vec<Value>) -> Value {
        let last = names.last().map_or("", String::as_str);
        let of = names.len().checked_sub(2).map(|at| names[at].as_str());
        let of =
            if of == Some("Self") { self.of.last().cloned() } else { of.map(ToOwned::to_owned) };
        match (of.as_deref(), last) {
            (None, "Self") => {
                let of = self.of.last().cloned().unwrap_or_default();
                return Value::Struct(of, [("0".into(), args.remove(0))].into());
            }
            (Some("Duration"), "from_nanos") => {
                return Value::Number(args[0].term(), Kind::Duration);
            }
            (Some(kind), "from") => {
                let term = match &args[0] {
                    Value::Truth(truth) => truth.clone().choose(Term::Int(1), Term::Int(0)),
                    value => value.term(),
                };
                return Value::Number(term, Kind::named(kind).expect("a number"));
            }
            (Some(kind), "try_from") => {
                let kind = Kind::named(kind).expect("a number");
                let term = args[0].term();
                let fits = self.decide(term.clone().within(kind.least(), kind.most()));
                return if fits {
                    Value::Variant("Ok".into(), vec![Value::Number(term, kind)])
                } else {
                    Value::Variant("Err".into(), vec![Value::Unit])
                };
            }
            _ => {}
        }
        let name = of.map_or_else(|| last.to_owned(), |of| format!("{of}::{last}"));
        if self.given.contains_key(&*name) || self.source.functions.contains_key(&name) {
            return self.call(&name, &args);
        }
        assert!(last.starts_with(char::is_uppercase), "no function `{name}` in the sources");
        Value::Variant(last.to_owned(), args)
    }

    /// Returns the value of a path that is no local name: a constant or a variant.
    pub(super) fn constant(&mut self, names: &[String]) -> Value {
        let last = names.last().map_or("", String::as_str);
        if let [kind, _] = names {
            if let Some(kind) = Kind::named(kind) {
                return match last {
                    "MAX" => Value::Number(Term::Int(kind.most()), kind),
                    "MIN" => Value::Number(Term::Int(kind.least()), kind),
                    "BITS" => Value::u32(Term::Int(if kind == Kind::U32 { 32 } else { 64 })),
                    other => panic!("no constant `{other}` of a number"),
                };
            }
            if kind == "Duration" {
                let term = if last == "MAX" { Kind::Duration.most() } else { 0 };
                return Value::Number(Term::Int(term), Kind::Duration);
            }
        }
        if let Some(constant) = self.source.constants.get(last).cloned() {
            let value = self.run(&constant, &mut Scope::new());
            let Ok(value) = value else { panic!("the constant `{last}` has no value") };
            return match value {
                Value::Number(term, Kind::Literal) => Value::u64(term),
                value => value,
            };
        }
        assert!(last.starts_with(char::is_uppercase), "no name `{last}`");
        Value::Variant(last.to_owned(), Vec::new())
    }
}
