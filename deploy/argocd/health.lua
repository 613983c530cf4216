-- The health of an Orchestr object for Argo CD: Healthy if all pods that it selects are, Degraded if some are not, and Progressing as
-- long as that is not known of the present spec.
local health = { status = "Progressing", message = "The operator has not checked the pods yet" }
if obj.spec ~= nil and obj.spec.alerts ~= nil and obj.spec.alerts.checkRunningPods == false then
  health.status = "Suspended"
  health.message = "The object is paused"
  return health
end
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.status.observedGeneration ~= nil and obj.metadata.generation ~= obj.status.observedGeneration then
  health.message = "The operator has not seen the present spec yet"
  return health
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Ready" and condition.status == "False" then
    health.status = "Degraded"
    health.message = condition.message
    return health
  end
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "PodsHealthy" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    elseif condition.status == "False" then
      health.status = "Degraded"
    end
  end
end
return health
