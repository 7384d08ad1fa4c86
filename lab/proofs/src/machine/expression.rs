use quote::ToTokens;
use syn::{BinOp, Expr, Stmt, UnOp};

use super::{Machine, Run, Stop};
use crate::term::Term;
use crate::value::{Kind, Scope, Value};

/// Statements and expressions.
impl Machine<'_> {
    pub(super) fn block(&mut self, block: &syn::Block, scope: &mut Scope) -> Run {
        let mut value = Value::Unit;
        for statement in &block.stmts {
            value = Value::Unit;
            match statement {
                Stmt::Local(local) => self.local(local, scope)?,
                Stmt::Expr(expr, semicolon) => {
                    let result = self.run(expr, scope)?;
                    if semicolon.is_none() {
                        value = result;
                    }
                }
                Stmt::Item(_) | Stmt::Macro(_) => {}
            }
        }
        Ok(value)
    }

    fn local(&mut self, local: &syn::Local, scope: &mut Scope) -> Run<()> {
        let Some(init) = &local.init else { panic!("a name without a value") };
        let value = self.run(&init.expr, scope)?;
        let typed = match &local.pat {
            syn::Pat::Type(typed) => Kind::named(&typed.ty.to_token_stream().to_string()),
            _ => None,
        };
        let value = match (value, typed) {
            (Value::Number(term, Kind::Literal), Some(kind)) => Value::Number(term, kind),
            (value, _) => value,
        };
        if !self.fits(&local.pat, value, scope) {
            let (_, other) = init.diverge.as_ref().expect("a pattern that always fits");
            self.run(other, scope)?;
            panic!("the `else` of a `let` goes on");
        }
        Ok(())
    }

    pub(super) fn run(&mut self, expr: &Expr, scope: &mut Scope) -> Run {
        match expr {
            Expr::Lit(lit) => Ok(literal(&lit.lit)),
            Expr::Paren(inner) => self.run(&inner.expr, scope),
            Expr::Reference(inner) => self.run(&inner.expr, scope),
            Expr::Path(path) => {
                let names: Vec<String> =
                    path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                match &*names {
                    [name] if scope.contains_key(name) => Ok(scope[name].clone()),
                    _ => Ok(self.constant(&names)),
                }
            }
            Expr::Field(field) => {
                let base = self.run(&field.base, scope)?;
                Ok(base.field(&field.member.to_token_stream().to_string()))
            }
            Expr::Unary(unary) => self.unary(unary, scope),
            Expr::Binary(binary) => self.binary(binary, scope),
            Expr::Cast(cast) => {
                let value = self.run(&cast.expr, scope)?;
                let kind = Kind::named(&cast.ty.to_token_stream().to_string()).expect("a number");
                Ok(match value {
                    Value::Number(term, from) if from.is_part_of(kind) => Value::Number(term, kind),
                    value => Value::Number(cut(value.term(), kind), kind),
                })
            }
            Expr::Tuple(tuple) => {
                let parts = tuple.elems.iter().map(|part| self.run(part, scope));
                let parts = parts.collect::<Run<Vec<_>>>()?;
                Ok(if parts.is_empty() { Value::Unit } else { Value::Tuple(parts) })
            }
            Expr::Range(range) => {
                let mut end = |end: &Option<Box<Expr>>| {
                    self.run(end.as_ref().expect("a range with two ends"), scope)
                };
                let (start, end) = (end(&range.start)?, end(&range.end)?);
                Ok(Value::Range(start.into(), end.into()))
            }
            Expr::Struct(of) => {
                let name = of.path.segments.last().expect("a name").ident.to_string();
                let fields = of.fields.iter().map(|field| {
                    Ok((field.member.to_token_stream().to_string(), self.run(&field.expr, scope)?))
                });
                Ok(Value::Struct(name, fields.collect::<Run<_>>()?))
            }
            Expr::Closure(closure) => Ok(Value::Closure((closure.clone(), scope.clone()).into())),
            Expr::Call(call) => self.run_call(call, scope),
            Expr::MethodCall(call) => self.run_method(call, scope),
            Expr::Block(block) => self.block_of(scope, |it, scope| it.block(&block.block, scope)),
            Expr::If(branch) => self.block_of(scope, |it, scope| it.branch(branch, scope)),
            Expr::Match(choice) => self.choice(choice, scope),
            Expr::Let(_) | Expr::Macro(_) => Ok(Value::Truth(Term::Bool(self.holds(expr, scope)?))),
            Expr::Return(end) => {
                let value =
                    end.expr.as_ref().map_or(Ok(Value::Unit), |end| self.run(end, scope))?;
                Err(Stop::Return(value))
            }
            Expr::Break(end) => {
                let value =
                    end.expr.as_ref().map_or(Ok(Value::Unit), |end| self.run(end, scope))?;
                Err(Stop::Break(value))
            }
            Expr::Try(inner) => match self.run(&inner.expr, scope)? {
                Value::Variant(name, mut parts) if name == "Some" || name == "Ok" => {
                    Ok(parts.remove(0))
                }
                other => Err(Stop::Return(other)),
            },
            // A step of a loop always ends: the word is that of any moment, so a comparison with it
            // holds at once.
            Expr::Loop(inner) => {
                let ended = self.block_of(scope, |it, scope| it.block(&inner.body, scope));
                match ended {
                    Err(Stop::Break(value)) => Ok(value),
                    Ok(_) => panic!("a loop goes on"),
                    stop => stop,
                }
            }
            Expr::While(inner) => {
                if !self.holds(&inner.cond, scope)? {
                    return Ok(Value::Unit);
                }
                match self.block_of(scope, |it, scope| it.block(&inner.body, scope)) {
                    Err(Stop::Break(value)) => Ok(value),
                    Ok(_) => panic!("a loop goes on"),
                    stop => stop,
                }
            }
            Expr::Assign(assign) => {
                let value = self.run(&assign.right, scope)?;
                let name = assign.left.to_token_stream().to_string();
                *scope.get_mut(&name).unwrap_or_else(|| panic!("no local name `{name}`")) = value;
                Ok(Value::Unit)
            }
            other => panic!("an expression of another kind: {}", other.to_token_stream()),
        }
    }

    /// Decides a condition, and binds the names of its patterns.
    pub(super) fn holds(&mut self, condition: &Expr, scope: &mut Scope) -> Run<bool> {
        match condition {
            Expr::Paren(inner) => self.holds(&inner.expr, scope),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                Ok(!self.holds(&unary.expr, scope)?)
            }
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
                Ok(self.holds(&binary.left, scope)? && self.holds(&binary.right, scope)?)
            }
            Expr::Binary(binary) if matches!(binary.op, BinOp::Or(_)) => {
                Ok(self.holds(&binary.left, scope)? || self.holds(&binary.right, scope)?)
            }
            Expr::Let(condition) => {
                let value = self.run(&condition.expr, scope)?;
                Ok(self.fits(&condition.pat, value, scope))
            }
            Expr::Macro(called) if called.mac.path.is_ident("matches") => {
                let parse = |input: syn::parse::ParseStream<'_>| {
                    let value: Expr = input.parse()?;
                    input.parse::<syn::Token![,]>()?;
                    Ok((value, syn::Pat::parse_multi_with_leading_vert(input)?))
                };
                let parsed = called.mac.parse_body_with(parse).expect("a value and a pattern");
                let value = self.run(&parsed.0, scope)?;
                Ok(self.fits(&parsed.1, value, scope))
            }
            other => {
                let question = self.run(other, scope)?.term();
                Ok(self.decide(question))
            }
        }
    }

    fn branch(&mut self, branch: &syn::ExprIf, scope: &mut Scope) -> Run {
        if self.holds(&branch.cond, scope)? {
            return self.block(&branch.then_branch, scope);
        }
        match &branch.else_branch {
            Some((_, other)) => self.run(other, scope),
            None => Ok(Value::Unit),
        }
    }

    fn choice(&mut self, choice: &syn::ExprMatch, scope: &mut Scope) -> Run {
        let value = match self.run(&choice.expr, scope)? {
            // All arms see one answer.
            Value::Truth(question) => Value::Truth(Term::Bool(self.decide(question))),
            value => value,
        };
        for arm in &choice.arms {
            let taken = self.block_of(scope, |it, scope| {
                if !it.fits(&arm.pat, value.clone(), scope) {
                    return Ok(None);
                }
                if let Some((_, guard)) = &arm.guard
                    && !it.holds(guard, scope)?
                {
                    return Ok(None);
                }
                it.run(&arm.body, scope).map(Some)
            })?;
            if let Some(value) = taken {
                return Ok(value);
            }
        }
        panic!("no arm of a `match` fits {value:?}")
    }

    fn unary(&mut self, unary: &syn::ExprUnary, scope: &mut Scope) -> Run {
        let value = self.run(&unary.expr, scope)?;
        Ok(match (&unary.op, value) {
            (UnOp::Not(_), value) => Value::Truth(value.term().negated()),
            (UnOp::Neg(_), Value::Number(term, kind)) => {
                let text = || unary.to_token_stream().to_string();
                self.number(Term::Int(0).minus(term), kind, text)
            }
            (_, value) => value,
        })
    }

    fn binary(&mut self, binary: &syn::ExprBinary, scope: &mut Scope) -> Run {
        if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) {
            let whole = Expr::Binary(binary.clone());
            return Ok(Value::Truth(Term::Bool(self.holds(&whole, scope)?)));
        }
        let (left, right) = (self.run(&binary.left, scope)?, self.run(&binary.right, scope)?);
        let kind = match (&left, &right) {
            (Value::Number(_, left), Value::Number(_, right)) => left.with(*right),
            _ => Kind::Literal,
        };
        let (a, b) = (left.term(), right.term());
        let text = || binary.to_token_stream().to_string();
        let number = match binary.op {
            BinOp::Lt(_) => return Ok(Value::Truth(a.lt(b))),
            BinOp::Le(_) => return Ok(Value::Truth(a.le(b))),
            BinOp::Gt(_) => return Ok(Value::Truth(b.lt(a))),
            BinOp::Ge(_) => return Ok(Value::Truth(b.le(a))),
            BinOp::Eq(_) => return Ok(Value::Truth(a.is(b))),
            BinOp::Ne(_) => return Ok(Value::Truth(a.is(b).negated())),
            BinOp::Add(_) => a.plus(b),
            BinOp::Sub(_) => a.minus(b),
            BinOp::Mul(_) => a.times(b),
            BinOp::Div(_) => a.quotient(b),
            BinOp::Rem(_) => a.remainder(b),
            BinOp::Shl(_) => a.times(power(&b)), // with the claim that no bit is lost
            BinOp::Shr(_) => a.quotient(power(&b)),
            BinOp::BitAnd(_) => a.remainder(mask(&b)),
            BinOp::BitOr(_) => {
                // The parts of a word: the upper one is shifted to above the lower one.
                let above = unit(&a).unwrap_or_else(|| panic!("no parts of a word: {}", text()));
                let above = Term::Int(above);
                let claim = b.clone().lt(above);
                self.claims.push(super::Claim { facts: self.facts.len(), claim, text: text() });
                a.plus(b)
            }
            _ => panic!("an operation of another kind: {}", text()),
        };
        Ok(self.number(number, kind, text))
    }
}

/// Returns the lower bits of a number.
pub(super) fn cut(term: Term, kind: Kind) -> Term {
    match kind {
        Kind::U32 => term.remainder(Term::Int(1 << 32)),
        Kind::U64 | Kind::Usize => term.remainder(Term::Int(1 << 64)),
        _ => term,
    }
}

/// Returns a power of two of which the number is a multiple, by its form.
fn unit(term: &Term) -> Option<i128> {
    match term {
        Term::Int(known) if *known > 0 => Some(1 << known.trailing_zeros()),
        Term::App("*", args) => match args[1] {
            Term::Int(unit) => Some(unit),
            _ => None,
        },
        Term::App("+", args) => Some(unit(&args[0])?.min(unit(&args[1])?)),
        _ => None,
    }
}

fn power(bits: &Term) -> Term {
    let Term::Int(bits) = bits else { panic!("a shift by an unknown number") };
    Term::Int(1 << bits)
}

/// Returns the number above a mask of lower bits.
fn mask(mask: &Term) -> Term {
    match mask {
        Term::Int(mask) if (mask + 1).count_ones() == 1 => Term::Int(mask + 1),
        other => panic!("{other} is no mask of lower bits"),
    }
}

fn literal(lit: &syn::Lit) -> Value {
    match lit {
        syn::Lit::Int(int) => {
            let kind = Kind::named(int.suffix()).unwrap_or(Kind::Literal);
            Value::Number(Term::Int(int.base10_parse().expect("a number")), kind)
        }
        // The sources compare shares with 0 and 1 alone.
        syn::Lit::Float(float) if float.base10_digits() == "0.0" => {
            Value::Number(Term::Int(0), Kind::Literal)
        }
        syn::Lit::Float(float) if float.base10_digits() == "1.0" => {
            Value::Number(Term::Int(1), Kind::Literal)
        }
        syn::Lit::Bool(truth) => Value::Truth(Term::Bool(truth.value)),
        other => panic!("a literal of another kind: {}", other.to_token_stream()),
    }
}
