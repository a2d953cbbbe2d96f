-- AddonModule follows kstatus, with observedGeneration and the conditions Ready, Reconciling, and Stalled. Reconciling and
-- Stalled exist only while they are True. The script needs only the library base.
local health = {status = "Progressing", message = "Waiting for the addon operator"}

if obj.metadata.deletionTimestamp ~= nil then
  health.message = "Being deleted"
  return health
end

if obj.status == nil or obj.status.conditions == nil then
  return health
end

if obj.status.observedGeneration ~= obj.metadata.generation then
  health.message = "The addon operator has not seen the newest configuration yet"
  return health
end

local found = {}
for _, condition in ipairs(obj.status.conditions) do
  if condition.status == "True" or condition.type == "Ready" then
    found[condition.type] = condition
  end
end

local ready = found["Ready"]
if found["Stalled"] ~= nil then
  return {status = "Degraded", message = found["Stalled"].message}
end
if ready == nil then
  return health
end
if ready.status == "False" then
  return {status = "Degraded", message = ready.message}
end
if ready.status ~= "True" then
  return {status = "Progressing", message = ready.message}
end
if found["Suspended"] ~= nil then
  return {status = "Suspended", message = found["Suspended"].message}
end
return {status = "Healthy", message = ready.message}
