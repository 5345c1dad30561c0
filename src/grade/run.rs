//! Grading a run: each task's graders built once, each answer judged against the row it was asked from.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::build::{Built, GradeError, build_task};
use super::judge_outcome::grade_request;
use super::score::ScoreRecord;
use crate::drive::Attempt;
use crate::plan::Plan;
use crate::spec::{Field, Row, Task, template};

/// Grades recorded attempts of one plan.
pub struct RunGrader {
    tasks: BTreeMap<String, (Task, Vec<Built>)>,
    plan: Arc<Plan>,
}

impl RunGrader {
    /// `tasks` with their environment filled in; the rows are the plan's.
    pub fn new(tasks: &[Task], plan: Arc<Plan>) -> Result<RunGrader, GradeError> {
        let build = |task: &Task| Ok((task.name.clone(), (task.clone(), build_task(task)?)));
        let tasks = tasks.iter().map(build).collect::<Result<_, _>>()?;
        Ok(RunGrader { tasks, plan })
    }

    /// The verdict on an attempt; `None` where it belongs to no task of the plan (warm-up).
    pub fn grade(&self, attempt: &Attempt) -> Option<ScoreRecord> {
        let (task, graders) = self.tasks.get(&attempt.task)?;
        let sample = self.plan.samples.get(attempt.sample as usize).filter(|s| s.task == attempt.task)?;
        Some(grade_request(task, graders, &sample.row, attempt, &render))
    }
}

/// Renders a grader's field over a row.
pub fn render(field: &Field, row: &Row) -> Result<Value, String> {
    template::render_field(field, row).map_err(|e| e.to_string())
}
